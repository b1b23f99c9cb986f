// API keys and SMTP credentials that are made, used and revoked while the nemesis strikes: a second behind the answer nobody gets in with them, at no node, in no
// open session; and what was accepted by them before is sent all the same.
import { setTimeout as pause } from 'node:timers/promises'
import { transportTo, type Login } from '../load.ts'
import { askUntilAnswered, type Asked, type Beside, type Scene } from './scene.ts'

/** One round for so many messages of the load. */
const messagesOfEach = 200
/** "Refused everywhere within a second", and what a loaded machine adds to it. */
const revokedMs = 1_500
const tries = 20

export async function accessRevoked({ fronts, chance, messages, at, open }: Scene): Promise<Beside> {
  const { shop } = await open({ scopes: ['mail.send', 'keys.write', 'smtp-credentials.write'] })
  const rounds = Array.from({ length: Math.ceil(messages / messagesOfEach) }, (_, n) => ({
    rest: `deferred-1+k${n}@d${chance.below(8)}.example`,
    smtp: `slow-eod-500ms+k${n}@d${chance.below(8)}.example`,
    begins: chance.next() * 0.8,
  }))
  const accepted: string[] = []
  const broken: string[] = []
  const office = (path: string, body?: object) =>
    askUntilAnswered(fronts, { key: shop.key, path, ...(body === undefined ? { method: 'DELETE' } : { body }) })
  const expectStatus = (what: string, { status, body }: Asked, wanted: number) => {
    if (status !== wanted) broken.push(`access: ${what} is ${status} ${body.code ?? body.id}, not ${wanted}`)
  }

  const overRest = async (recipient: string): Promise<void> => {
    const made = await office('keys', { name: recipient, scopes: ['mail.send'] })
    expectStatus('making a key', made, 201)
    const { id = '', key = '' } = made.body
    const send = (only: Scene['fronts'], to: string) =>
      askUntilAnswered(only, {
        key,
        path: 'send',
        headers: { 'idempotency-key': to },
        body: shop.body({ recipient: to }),
      })
    const sent = await send(fronts, recipient)
    expectStatus(recipient, sent, 202)
    accepted.push(sent.body.id ?? '')
    expectStatus('revoking a key', await office(`keys/${id}`), 200)
    await pause(revokedMs)
    for (const front of fronts) expectStatus('a revoked key', await send([front], `refused.${recipient}`), 401)
  }
  const overSmtp = async (recipient: string): Promise<void> => {
    const made = await office('smtp-credentials', { name: recipient })
    expectStatus('making a login', made, 201)
    const { id = '', username = '', password = '' } = made.body
    const login: Login = { username, password }
    const transports = fronts.map((front) => transportTo(front, login, 1))
    const mail = (to: string) => ({
      envelope: { from: shop.address, to: [to] },
      raw: `From: ${shop.address}\r\nTo: ${to}\r\nMessage-ID: <${to}>\r\n\r\nBy a login.\r\n`,
    })
    /** At this node until there is a reply. The last word where there is none is no answer, too: an unanswered mail may be there. */
    const said = async (at: number, to: string): Promise<number | undefined> => {
      for (let n = 0; n < tries; n++) {
        const code = await transports[at]?.sendMail(mail(to)).then(
          () => 250,
          ({ responseCode }: { responseCode?: number }) => responseCode,
        )
        if (code === 250 || (code !== undefined && code >= 500)) return code
        await pause(200)
      }
      return undefined
    }
    if ((await said(0, recipient)) !== 250 && (await said(1, recipient)) !== 250)
      broken.push(`access: ${recipient} was not taken over SMTP`)
    expectStatus('revoking a login', await office(`smtp-credentials/${id}`), 200)
    await pause(revokedMs)
    for (const node of fronts.keys()) {
      const code = await said(node, `refused.${recipient}`)
      if (code === 250) broken.push(`access: ${recipient}: the login was revoked, and mail taken by it`)
    }
    for (const transport of transports) transport.close()
  }

  return {
    accepted,
    recipients: new Set(rounds.flatMap(({ rest, smtp }) => [rest, smtp])),
    over: Promise.all(
      rounds.map(async ({ rest, smtp, begins }) => {
        await at(begins)
        await Promise.all([overRest(rest), overSmtp(smtp)])
      }),
    ),
    breaches: () => Promise.resolve(broken),
  }
}
