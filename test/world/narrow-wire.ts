// A way to a TLS server on which no hello longer than a packet arrives: its sender hears nothing, as from some hosts and what stands before them.
import { once } from 'node:events'
import { connect, createServer, type AddressInfo, type Socket } from 'node:net'

const packetBytes = 1_400

export interface NarrowWire {
  readonly port: number
  stop(): Promise<void>
}

/** Leads to this port of 127.0.0.1. */
export async function startNarrowWire(to: number): Promise<NarrowWire> {
  const open = new Set<Socket>()
  const keep = (socket: Socket) => {
    open.add(socket.on('error', () => undefined))
    socket.once('close', () => open.delete(socket))
  }
  const server = createServer((from) => {
    keep(from)
    from.once('data', (hello: Buffer) => {
      if (5 + hello.readUInt16BE(3) > packetBytes) return
      const on = connect(to, '127.0.0.1')
      keep(on)
      on.write(hello)
      from.pipe(on).pipe(from)
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    port: (server.address() as AddressInfo).port,
    stop: async () => {
      for (const socket of open) socket.destroy()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}
