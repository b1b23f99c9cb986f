// The installation key, rotated by the book (docs/production.md) while the nemesis strikes: both nodes restarted one after the other under load, `posthorn rotate-key` killed
// and begun again. What it seals is needed for every signature, so the ledgers tell whether it still opens.
import { setTimeout as pause } from 'node:timers/promises'
import type { Beside, Scene } from './scene.ts'

const killsMost = 3
const commandMsMost = 1_500

export function installationKeyRotated({ keys, chance, at, operator, deploy }: Scene): Promise<Beside> {
  const broken: string[] = []
  const killAfter = Array.from({ length: chance.below(killsMost + 1) }, () => chance.below(commandMsMost))
  const settings = { POSTHORN_SECRET_KEY: keys.next, POSTHORN_SECRET_KEYS_ACCEPTED: keys.first }

  const untilDone = async (...words: string[]): Promise<void> => {
    for (let tries = 0; tries < 20; tries++) {
      const { status, said } = await operator(words, { settings, killAfterMs: killAfter.shift() })
      if (status === 0) return
      if (status === 2) return void broken.push(`installation key: ${words.join(' ')}: ${said}`)
      await pause(200)
    }
    broken.push(`installation key: ${words.join(' ')} does not come to its end`)
  }
  const rotate = async (): Promise<void> => {
    await at(0.2)
    await deploy(settings)
    await untilDone('rotate-key')
    await untilDone('rotate-key', '--finish')
    // From here on the old one opens nothing for anybody.
    await deploy({ ...settings, POSTHORN_SECRET_KEYS_ACCEPTED: keys.other })
  }
  return Promise.resolve({ over: rotate(), breaches: () => Promise.resolve(broken) })
}
