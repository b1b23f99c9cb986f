// What a Postfix asks before it answers (SMTPD_POLICY_README of Postfix): a table of facts about the conversation, and the test says what to do.
import { once } from 'node:events'
import { createServer, type AddressInfo, type Socket } from 'node:net'
import { createInterface } from 'node:readline'

/** `protocol_state`, `recipient`, `client_port`, `encryption_protocol` and the like. */
export type PolicyRequest = Readonly<Record<string, string>>

export interface PolicyService {
  readonly port: number
  /** Every question so far. */
  readonly asked: readonly PolicyRequest[]
  stop(): Promise<void>
}

/** `decide` answers an action of access(5), such as `DUNNO` or `450 4.2.0 later`. */
export async function startPolicyService(
  decide: (request: PolicyRequest) => string | Promise<string>,
): Promise<PolicyService> {
  const asked: PolicyRequest[] = []
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    sockets.add(socket)
    socket.on('error', () => undefined).on('close', () => sockets.delete(socket))
    let request: Record<string, string> = {}
    createInterface(socket).on('line', (line) => {
      const at = line.indexOf('=')
      if (at > 0) return void (request[line.slice(0, at)] = line.slice(at + 1))
      const whole = request
      request = {}
      asked.push(whole)
      void Promise.resolve(decide(whole)).then((action) => socket.write(`action=${action}\n\n`))
    })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    port: (server.address() as AddressInfo).port,
    asked,
    stop: async () => {
      for (const socket of sockets) socket.destroy()
      await once(server.close(), 'close')
    },
  }
}
