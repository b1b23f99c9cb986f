// A name server of the tests' own, UDP and TCP on one loopback port: zones are data, and single names can misbehave. What is not in the
// zone does not exist (NXDOMAIN); a name that is there without the asked type has no data.
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { createServer } from 'node:net'
import type { AddressInfo, Socket } from 'node:net'
import packet from 'dns-packet'

export interface Mx {
  readonly preference: number
  /** `.` alone is the null MX. */
  readonly exchange: string
}

/** What a name has, or how it misbehaves. `truncated`: over UDP nothing but "ask again over TCP". */
export type Name =
  | {
      readonly mx?: readonly Mx[]
      readonly a?: readonly string[]
      readonly aaaa?: readonly string[]
      readonly txt?: readonly string[]
      readonly cname?: string
      readonly ns?: readonly string[]
      readonly ptr?: readonly string[]
      readonly tlsa?: readonly packet.TlsaData[]
      /** At the top of a zone: comes with every "no" below it. */
      readonly soa?: { readonly ttl: number; readonly minimum: number }
      /** Seconds; 60 where it is not said. */
      readonly ttl?: number
      /** The AD bit of answers about this name. */
      readonly secure?: true
      /** Before the answer comes one that must not count. */
      readonly forgedFirst?: 'wrong id' | 'other question' | 'no question' | 'other name'
      readonly truncated?: true
      /** Only these types misbehave. */
      readonly broken?: { readonly types: readonly string[]; readonly how: Trouble }
    }
  | Trouble
export type Trouble = 'servfail' | 'refused' | 'nxdomain' | 'silence' | 'garbage'
export type Zone = Readonly<Record<string, Name>>

export interface DnsServer {
  readonly port: number
  /** `127.0.0.1:port`, as in POSTHORN_DNS_SERVERS. */
  readonly address: string
  /** Every question: `MX example.com`, and `MX example.com tcp` over TCP. */
  readonly asked: string[]
  /** Where the questions over UDP came from, in order. */
  readonly ports: number[]
  /** Replaced or added to while it runs. */
  readonly zone: Record<string, Name>
  stop(): Promise<void>
}

const codes = { servfail: 2, nxdomain: 3, refused: 5 } as const

export async function startDnsServer(zone: Zone = {}): Promise<DnsServer> {
  const asked: string[] = []
  const ports: number[] = []
  const names: Record<string, Name> = { ...zone }
  const sockets = new Set<Socket>()

  const tcp = createServer((socket) => {
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket))
    socket.on('error', () => undefined)
    let bytes = Buffer.alloc(0)
    socket.on('data', (chunk) => {
      bytes = Buffer.concat([bytes, chunk])
      while (bytes.length >= 2 && bytes.length >= 2 + bytes.readUInt16BE(0)) {
        const end = 2 + bytes.readUInt16BE(0)
        const reply = answer(bytes.subarray(2, end), 'tcp')
        bytes = bytes.subarray(end)
        if (reply === undefined) continue
        const length = Buffer.alloc(2)
        length.writeUInt16BE(reply.length)
        socket.write(Buffer.concat([length, reply]))
      }
    })
  })
  const udp = createSocket('udp4')
  udp.on('message', (message, from) => {
    ports.push(from.port)
    for (const forged of forgeriesOf(names, message)) udp.send(forged, from.port, from.address)
    const reply = answer(message, 'udp')
    if (reply !== undefined) udp.send(reply, from.port, from.address)
  })

  function answer(message: Buffer, way: 'udp' | 'tcp'): Buffer | undefined {
    const query = packet.decode(message)
    const question = query.questions?.[0]
    if (question === undefined) return undefined
    asked.push(`${question.type} ${question.name}${way === 'tcp' ? ' tcp' : ''}`)
    const reply = { id: query.id ?? 0, type: 'response' as const, questions: [question], answers: [] }
    const own = ((query.flags ?? 0) & packet.RECURSION_DESIRED) === 0 ? packet.AUTHORITATIVE_ANSWER : 0
    const flags = packet.RECURSION_DESIRED | packet.RECURSION_AVAILABLE | own
    const name = names[question.name.toLowerCase()] ?? 'nxdomain'
    const authorities = soaAbove(names, question.name)
    const trouble =
      typeof name === 'string' ? name : name.broken?.types.includes(question.type) ? name.broken.how : undefined
    if (trouble === 'silence') return undefined
    if (trouble === 'garbage') return Buffer.concat([message.subarray(0, 2), Buffer.from('not at all a DNS message')])
    if (trouble !== undefined) return packet.encode({ ...reply, flags: flags | codes[trouble], authorities })
    if (typeof name === 'string') return undefined
    if (name.truncated === true && way === 'udp')
      return packet.encode({ ...reply, flags: flags | packet.TRUNCATED_RESPONSE })
    const answers = answersOf(names, question.name, question.type)
    const ad = name.secure === true ? packet.AUTHENTIC_DATA : 0
    const about = answers.length > 0 ? { answers } : { authorities }
    return packet.encode({ ...reply, ...about, flags: flags | ad })
  }

  // Both on one port. Somebody may hold the other half of it, so a few are tried.
  let port = 0
  for (let tries = 1; port === 0; tries++) {
    tcp.listen(0, '127.0.0.1')
    await once(tcp, 'listening')
    const free = (tcp.address() as AddressInfo).port
    try {
      udp.bind(free, '127.0.0.1')
      await once(udp, 'listening')
      port = free
    } catch (error) {
      await once(tcp.close(), 'close')
      if (tries === 5) throw error
    }
  }

  return {
    port,
    address: `127.0.0.1:${port}`,
    asked,
    ports,
    zone: names,
    stop: async () => {
      for (const socket of sockets) socket.destroy()
      await Promise.all([once(tcp.close(), 'close'), once(udp.close(), 'close')])
    },
  }
}

function answersOf(names: Readonly<Record<string, Name>>, owner: string, type: string, hops = 0): packet.Answer[] {
  const name = names[owner.toLowerCase()]
  if (name === undefined || typeof name === 'string') return []
  const common = { name: owner, ttl: name.ttl ?? 60 }
  if (name.cname !== undefined)
    return [
      { ...common, type: 'CNAME', data: name.cname },
      ...(hops < 20 ? answersOf(names, name.cname, type, hops + 1) : []), // rings exist
    ]
  switch (type) {
    case 'MX':
      return (name.mx ?? []).map((data) => ({ ...common, type: 'MX', data }))
    case 'A':
      return (name.a ?? []).map((data) => ({ ...common, type: 'A', data }))
    case 'AAAA':
      return (name.aaaa ?? []).map((data) => ({ ...common, type: 'AAAA', data }))
    case 'TXT':
      return (name.txt ?? []).map((data) => ({ ...common, type: 'TXT', data: data.match(/.{1,255}/gs) ?? [''] }))
    case 'NS':
      return (name.ns ?? []).map((data) => ({ ...common, type: 'NS', data }))
    case 'PTR':
      return (name.ptr ?? []).map((data) => ({ ...common, type: 'PTR', data }))
    case 'TLSA':
      return (name.tlsa ?? []).map((data) => ({ ...common, type: 'TLSA', data }))
    case 'SOA':
      return name.soa === undefined ? [] : soaAbove(names, owner)
    default:
      return []
  }
}

function soaAbove(names: Readonly<Record<string, Name>>, below: string): packet.Answer[] {
  for (
    let owner = below.toLowerCase();
    owner !== '';
    owner = owner.includes('.') ? owner.slice(owner.indexOf('.') + 1) : ''
  ) {
    const name = names[owner]
    if (name === undefined || typeof name === 'string' || name.soa === undefined) continue
    const { ttl, minimum } = name.soa
    const data = { mname: 'ns.test', rname: 'post.test', serial: 1, refresh: 60, retry: 60, expire: 60, minimum }
    return [{ type: 'SOA', name: owner, ttl, data }]
  }
  return []
}

/** What somebody else might send who guesses badly: an address of theirs. */
function forgeriesOf(names: Readonly<Record<string, Name>>, message: Buffer): Buffer[] {
  const query = packet.decode(message)
  const question = query.questions?.[0]
  const name = names[question?.name.toLowerCase() ?? '']
  if (question === undefined || name === undefined || typeof name === 'string' || name.forgedFirst === undefined)
    return []
  const id = query.id ?? 0
  const lie = (questions: packet.Question[], as = id) =>
    packet.encode({
      type: 'response',
      id: as,
      questions,
      answers: [{ type: 'A', name: question.name, ttl: 60, data: '6.6.6.6' }],
    })
  switch (name.forgedFirst) {
    case 'wrong id':
      return [lie([question], id ^ 1)]
    case 'other question':
      return [lie([{ ...question, type: 'TXT' }])]
    case 'no question':
      return [lie([])]
    case 'other name':
      return [lie([{ ...question, name: 'elsewhere.test' }])]
  }
}
