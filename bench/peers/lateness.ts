// Takes events one after the other, a process of its own; GET tells how long after its `createdAt` each message.queued came, in milliseconds.
import { createServer } from 'node:http'

let late: number[] = []
const server = createServer((request, response) => {
  if (request.method === 'GET') {
    response.end(JSON.stringify(late))
    late = []
    return
  }
  const chunks: Buffer[] = []
  request.on('data', (chunk: Buffer) => chunks.push(chunk))
  request.on('end', () => {
    const now = Date.now()
    response.end()
    // The message's first event alone, and without parsing the rest: reading must not be what is measured.
    const text = Buffer.concat(chunks).toString('latin1', 0, 200)
    const [, at] = /"type":"message\.queued","createdAt":"([^"]+)"/.exec(text) ?? []
    if (at !== undefined && late.length < 100_000) late.push(now - Date.parse(at))
  })
})
server.keepAliveTimeout = 60_000
server.listen(Number(process.argv[2]), '127.0.0.1', () => console.log('ready'))
