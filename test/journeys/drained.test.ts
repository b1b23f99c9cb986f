// `posthorn drain`: all nodes stop claiming, what is past the dot comes to its end, the rest is handed back without using a try; acceptance goes
// on, and a restart does not undo it.
import { beforeAll, expect, test } from 'vitest'
import { ending } from '../world/ending.ts'
import type { JourneyWorkspace } from '../world/journey-workspace.ts'
import { startPosthorn, type Posthorn } from '../world/posthorn.ts'
import { startReceiver, type Receiver } from '../world/receiver-process.ts'

let atRcpt: Receiver
let atDot: Receiver
let one: Posthorn
let two: Posthorn
let early: JourneyWorkspace
let late: JourneyWorkspace
beforeAll(async () => {
  ;[atRcpt, atDot] = await Promise.all([
    ending(startReceiver, { hold: 'rcpt' }),
    ending(startReceiver, { hold: 'eod' }),
  ])
  one = await ending(startPosthorn)
  two = await one.anotherNode()
  early = await one.workspace({ route: `smtp://127.0.0.1:${atRcpt.port}` })
  late = await one.workspace({ route: `smtp://127.0.0.1:${atDot.port}` })
})

test('a drain ends what is past the dot, hands back the rest, outlives restarts, and is taken back', async () => {
  const unarmed = await Promise.all(Array.from({ length: 6 }, () => early.accepted({ recipient: 'ok@there.example' })))
  const armed = await late.accepted({ recipient: 'ok@there.example' })
  await Promise.all([atRcpt.reached('rcpt'), atDot.reached('eod')])

  const draining = one.cli<{ draining: boolean; inFlight: number; waiting: number }>('drain')
  const armedAlone = 'select from outbound where lease_until is not null having count(*) = 1'
  await one.until('all but the armed one handed back', async () => (await one.query(armedAlone)).length > 0)
  atDot.release()
  expect(await draining).toEqual({ draining: true, inFlight: 0, waiting: 6 })
  expect(await late.settled(armed)).toMatchObject({ processingStatus: 'sent' })
  expect(await one.query('select distinct status, attempts from outbound')).toEqual([
    { status: 'retrying', attempts: 0 },
  ])
  expect(await atRcpt.ledger()).toEqual([])

  const accepted = await late.accepted({ recipient: 'ok+2@there.example' })
  await two.stop()
  await two.startAgain()
  expect(await one.cli('drain', '--no-wait')).toEqual({ draining: true, inFlight: 0, waiting: 7 })
  const ready = (await (await fetch(`${two.url}/readyz`)).json()) as object
  expect(ready).toEqual({ status: 'ready', detail: { database: 'reachable', delivery: 'stopped (drain: operator)' } })

  expect(await one.cli('drain', '--off')).toMatchObject({ draining: false })
  const pushing = setInterval(() => {
    atRcpt.release()
    atDot.release()
  }, 30)
  for (const id of unarmed) expect(await early.settled(id)).toMatchObject({ processingStatus: 'sent' })
  expect(await late.settled(accepted)).toMatchObject({ processingStatus: 'sent' })
  clearInterval(pushing)
  expect((await atRcpt.ledger()).length + (await atDot.ledger()).length).toBe(8)
}, 180_000)
