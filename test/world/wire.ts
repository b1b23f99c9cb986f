// A wire of TCP before a server, that a test can cut: whoever speaks over it loses the connection, whatever the server does.
import { once } from 'node:events'
import { connect, createServer, type AddressInfo, type Socket } from 'node:net'

export interface Wire {
  readonly port: number
  /** Ends the connection that the server sees come from this port, towards both sides. */
  cut(clientPort: number, how: 'close' | 'reset'): void
  stop(): Promise<void>
}

export async function startWire(serverPort: number): Promise<Wire> {
  const lines = new Set<readonly [client: Socket, upstream: Socket]>()
  const server = createServer({ noDelay: true }, (client) => {
    const upstream = connect({ port: serverPort, host: '127.0.0.1', noDelay: true })
    const line = [client, upstream] as const
    lines.add(line)
    for (const socket of line)
      socket
        .on('error', () => undefined)
        .on('close', () => {
          lines.delete(line)
          client.destroy()
          upstream.destroy()
        })
    client.pipe(upstream).pipe(client)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    port: (server.address() as AddressInfo).port,
    cut: (clientPort, how) => {
      const found = [...lines].find(([, upstream]) => upstream.localPort === clientPort)
      if (found === undefined) throw new Error(`no connection comes from port ${clientPort}`)
      for (const socket of found)
        if (how === 'reset') socket.resetAndDestroy()
        else socket.destroy()
    },
    stop: async () => {
      for (const line of lines) for (const socket of line) socket.destroy()
      await once(server.close(), 'close')
    },
  }
}
