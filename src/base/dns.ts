// A stub resolver of our own (RFC 1035, EDNS 6891, AD bit 6840): node:dns tells no TTL for MX, no AD bit and no SOA. Every question has an
// unforeseeable id and a port of its own, and only an answer from the server that was asked, to that very question, counts; what is cut
// short over UDP is asked again over TCP. Answers are kept as long as they say, askers of the same question share it (RFC 2308). Questions take
// turns by owner, so that somebody's silent domains do not hold up the others'.
import { randomInt } from 'node:crypto'
import { createSocket } from 'node:dgram'
import { Resolver } from 'node:dns'
import { connect, isIP } from 'node:net'
import packet from 'dns-packet'
import { limits } from '../config.ts'
import { afterPoll } from './after-poll.ts'
import { isNothingLeft } from './nothing-left.ts'
import { isLoopback } from './private-address.ts'
import { remembered } from './remembered.ts'
import { currentOwner, turns } from './turns.ts'

export type RecordType = 'A' | 'AAAA' | 'MX' | 'TXT' | 'TLSA' | 'SOA' | 'NS' | 'CNAME' | 'PTR'

export interface DnsAnswer {
  /** `no_data`: the name exists, without such a record. `failure`: nobody knows. */
  readonly kind: 'found' | 'no_data' | 'not_found' | 'failure'
  /** Of the asked type, at the end of the chain of aliases. */
  readonly records: readonly packet.Answer[]
  /** The name that the chain of aliases led to. */
  readonly canonical: string
  /** The resolver says that it has validated all of it. Worth something only from a resolver that is trusted to. */
  readonly secure: boolean
  readonly keepMs: number
  /** False: silence. */
  readonly answered: boolean
  /** The server speaks for the zone itself (AA bit). */
  readonly authoritative: boolean
}

/** A question fails with an error only where nothing is left here to ask it with; whatever others do is an answer. */
export interface Dns {
  ask(name: string, type: RecordType): Promise<DnsAnswer>
  /** One question to one server, not remembered. `own`: what it knows by itself, without asking others. */
  askServer(server: string, name: string, type: RecordType, own?: 'own'): Promise<DnsAnswer>
  readonly servers: readonly string[]
  /** The operator named the servers, or they are on this machine and speak for themselves: nobody else can speak in their name. */
  readonly near: boolean
  /** Gives up the questions under way. */
  cancel(): void
}

export interface DnsSettings {
  /** `ip` or `ip:port`; none: the system's. */
  readonly servers: readonly string[]
  readonly queryMs?: number
  readonly tries?: number
  readonly keptBytesMax?: number
  /** The system's servers as they are now (tests). */
  readonly system?: () => readonly string[]
  /** The clock of what is remembered (tests). */
  readonly now?: () => number
}

export function makeDns(settings: DnsSettings): Dns {
  const {
    queryMs = limits.dnsQueryMs,
    tries = limits.dnsTries,
    keptBytesMax = limits.dnsAnswersKeptBytesMax,
    system = systemServers,
    now,
  } = settings
  const clock = now ?? (() => performance.now())
  const named = settings.servers.length > 0
  let known = (named ? settings.servers : system()).slice(0, limits.dnsServersMax)
  let readAt = clock()
  /** The system's change while we run: another network, a resolver of its own. */
  const servers = (): readonly string[] => {
    if (!named && clock() - readAt > limits.dnsServersReadMs) {
      readAt = clock()
      known = system().slice(0, limits.dnsServersMax)
    }
    return known
  }
  const enter = turns({ most: limits.dnsQuestionsMax, share: limits.dnsQuestionsOfOwnerMax })
  let giveUp = new AbortController()

  const askServer = async (server: string, name: string, type: RecordType, own?: 'own'): Promise<DnsAnswer> => {
    const { signal } = giveUp
    if (!isAskable(name)) return failure(name, false)
    const leave = await enter()
    try {
      const answer = await exchange(serverAt(server), { name, type, recursive: own === undefined }, queryMs, signal)
      return answer === undefined ? failure(name, false) : meaningOf(answer, name, type)
    } finally {
      leave()
    }
  }

  const askAll = async (name: string, type: RecordType): Promise<DnsAnswer> => {
    const { signal } = giveUp
    let answered = false
    for (let turn = 0; turn < tries; turn++)
      for (const server of servers()) {
        const answer = await askServer(server, name, type)
        if (answer.kind !== 'failure' || signal.aborted) return answer
        answered ||= answer.answered
      }
    return failure(name, answered)
  }

  const kept = remembered<DnsAnswer>(
    (question) => {
      const at = question.indexOf(' ')
      return askAll(question.slice(at + 1), question.slice(0, at) as RecordType)
    },
    {
      keepMs: (answer) => answer.keepMs,
      most: limits.dnsAnswersKeptMax,
      bytesMost: keptBytesMax,
      owner: currentOwner,
      ...(now && { now }),
    },
  )

  return {
    get servers() {
      return servers()
    },
    get near() {
      return named || servers().every(speaksItself)
    },
    ask: (name, type) =>
      isAskable(name) ? kept(`${type} ${name.toLowerCase()}`) : Promise.resolve(failure(name, false)),
    askServer,
    cancel: () => {
      giveUp.abort()
      giveUp = new AbortController()
    },
  }
}

/** A new one reads /etc/resolv.conf anew. */
const systemServers = (): readonly string[] => new Resolver().getServers()

interface Server {
  readonly address: string
  readonly port: number
}

interface Question {
  readonly name: string
  readonly type: RecordType
  readonly recursive: boolean
}

function serverAt(server: string): Server {
  const match = /^(?:\[(.+)\]|([^:]+)):(\d{1,5})$/.exec(server)
  return match === null
    ? { address: server, port: 53 }
    : { address: match[1] ?? match[2] ?? server, port: Number(match[3]) }
}

/** Docker's, in the containers of a network: it hands on what another server says, AD bit and all, and which one that is nobody sees inside. */
const dockersServer = '127.0.0.11'

function speaksItself(server: string): boolean {
  const { address } = serverAt(server)
  return isLoopback(address) && address !== dockersServer
}

const isAskable = (name: string): boolean =>
  name === '.' || (name.length <= 253 && name.split('.').every((label) => label.length >= 1 && label.length <= 63))

const failure = (name: string, answered: boolean): DnsAnswer => ({
  kind: 'failure',
  records: [],
  canonical: name.toLowerCase(),
  secure: false,
  keepMs: 0,
  answered,
  authoritative: false,
})

/** A whole answer from this server to this question, or nothing. One that knows no EDNS is asked again without (RFC 6891 7). */
async function exchange(
  server: Server,
  question: Question,
  ms: number,
  signal: AbortSignal,
): Promise<packet.DecodedPacket | undefined> {
  const answer = await exchangeOnce(server, question, 'edns', ms, signal)
  return knowsNoEdns(answer) ? exchangeOnce(server, question, 'plain', ms, signal) : answer
}

async function exchangeOnce(
  server: Server,
  { name, type, recursive }: Question,
  way: 'edns' | 'plain',
  ms: number,
  signal: AbortSignal,
): Promise<packet.DecodedPacket | undefined> {
  const id = randomInt(65_536)
  const question = packet.encode({
    type: 'query',
    id,
    flags: (recursive ? packet.RECURSION_DESIRED : 0) | packet.AUTHENTIC_DATA,
    questions: [{ type, name, class: 'IN' }],
    additionals: way === 'edns' ? [edns] : [],
  })
  const read = (bytes: Buffer) => answerTo(bytes, id, name, type)
  const short = await overUdp(server, question, read, ms, signal)
  if (short?.flag_tc !== true) return short
  const whole = await overTcp(server, question, read, ms, signal)
  return whole?.flag_tc === true ? undefined : whole
}

const edns: packet.OptAnswer = {
  type: 'OPT',
  name: '.',
  udpPayloadSize: 1_232,
  extendedRcode: 0,
  ednsVersion: 0,
  flags: 0,
  flag_do: false,
  options: [],
}

const rcodeOf = (answer: packet.DecodedPacket | undefined): string | undefined =>
  (answer as { rcode?: string } | undefined)?.rcode

const knowsNoEdns = (answer: packet.DecodedPacket | undefined): boolean =>
  ['FORMERR', 'NOTIMP'].includes(rcodeOf(answer) ?? '')

/**
 * Undefined where it is no answer to this very question, or larger than any that is of use: names that refer to each other make reading 64 KB
 * take half a second, and answers are kept.
 */
function answerTo(bytes: Buffer, id: number, name: string, type: RecordType): packet.DecodedPacket | undefined {
  if (bytes.length > limits.dnsAnswerBytesMax) return undefined
  try {
    const answer = packet.decode(bytes)
    if (answer.type !== 'response' || answer.id !== id) return undefined
    const asked = answer.questions?.[0]
    // Who could not read the question need not repeat it.
    if (asked === undefined && knowsNoEdns(answer)) return answer
    const ours = answer.questions?.length === 1 && asked?.type === type && sameName(asked.name, name)
    return ours ? answer : undefined
  } catch {
    return undefined // not a DNS message: as good as silence
  }
}

const bare = (name: string): string => name.toLowerCase().replace(/\.$/, '')
const sameName = (one: string, other: string): boolean => bare(one) === bare(other)

type Read = (bytes: Buffer) => packet.DecodedPacket | undefined

/** A socket for each question, connected: the kernel gives it a random port and lets only that server in. */
function overUdp(
  server: Server,
  question: Buffer,
  read: Read,
  ms: number,
  signal: AbortSignal,
): ReturnType<typeof overTcp> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) return resolve(undefined)
    const socket = createSocket(isIP(server.address) === 6 ? 'udp6' : 'udp4')
    let over = false
    const settle = (answer?: packet.DecodedPacket) => {
      if (over) return
      over = true
      clearTimeout(timer)
      signal.removeEventListener('abort', giveUp)
      socket.removeAllListeners().on('error', () => undefined)
      socket.close()
      resolve(answer)
    }
    const giveUp = () => settle()
    const timer = setTimeout(() => void afterPoll().then(giveUp), ms)
    signal.addEventListener('abort', giveUp)
    const failed = (error: Error) => {
      if (isNothingLeft(error)) reject(error)
      settle()
    }
    socket.on('error', failed).on('message', (bytes) => {
      const answer = read(bytes)
      if (answer !== undefined) settle(answer)
    })
    // Without a callback, which would be called with the error too (no way to an IPv6 server), and `send` throws where nobody catches.
    socket.once('connect', () => socket.send(question))
    socket.connect(server.port, server.address)
  })
}

function overTcp(
  server: Server,
  question: Buffer,
  read: Read,
  ms: number,
  signal: AbortSignal,
): Promise<packet.DecodedPacket | undefined> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) return resolve(undefined)
    const socket = connect({ host: server.address, port: server.port })
    const settle = (answer?: packet.DecodedPacket) => {
      clearTimeout(timer)
      signal.removeEventListener('abort', giveUp)
      socket.destroy()
      resolve(answer)
    }
    const giveUp = () => settle()
    const timer = setTimeout(() => void afterPoll().then(giveUp), ms)
    signal.addEventListener('abort', giveUp)
    let bytes = Buffer.alloc(0)
    const length = Buffer.alloc(2)
    length.writeUInt16BE(question.length)
    socket.on('error', (error) => {
      if (isNothingLeft(error)) reject(error)
      settle()
    })
    socket.on('close', giveUp)
    socket.on('connect', () => socket.write(Buffer.concat([length, question])))
    socket.on('data', (chunk: Buffer) => {
      bytes = Buffer.concat([bytes, chunk])
      if (bytes.length >= 2 && bytes.readUInt16BE(0) > limits.dnsAnswerBytesMax) return giveUp()
      if (bytes.length < 2 || bytes.length < 2 + bytes.readUInt16BE(0)) return
      settle(read(bytes.subarray(2, 2 + bytes.readUInt16BE(0))))
    })
  })
}

/** Follows the aliases in the answer; what is not on that way does not count. */
function meaningOf(answer: packet.DecodedPacket, name: string, type: RecordType): DnsAnswer {
  const rcode = rcodeOf(answer)
  if (rcode !== 'NOERROR' && rcode !== 'NXDOMAIN') return failure(name, true)
  let canonical = bare(name)
  let ttl = Infinity
  const all = answer.answers ?? []
  const hopsMax = type === 'CNAME' ? 0 : limits.dnsAliasesMax // who asks for the alias wants itself
  for (let hops = 0; hops < hopsMax; hops++) {
    const alias = all.find((record) => record.type === 'CNAME' && sameName(record.name, canonical))
    if (alias === undefined || alias.type !== 'CNAME') break
    canonical = bare(alias.data)
    ttl = Math.min(ttl, alias.ttl ?? 0)
  }
  const records = all.filter((record) => record.type === type && sameName(record.name, canonical))
  const { flag_ad: secure, flag_aa: authoritative } = answer
  if (rcode === 'NOERROR' && records.length > 0) {
    for (const record of records) ttl = Math.min(ttl, ('ttl' in record ? record.ttl : undefined) ?? 0)
    return {
      kind: 'found',
      records,
      canonical,
      secure,
      keepMs: bounded(ttl * 1000, limits.dnsKeptMsMax),
      answered: true,
      authoritative,
    }
  }
  // How long a "no" lasts, its SOA says (RFC 2308 section 5).
  const soa = answer.authorities?.find((record) => record.type === 'SOA')
  // "Ask those", from a server that asks nobody itself: not the word of anybody who knows (2.2).
  const refers = rcode === 'NOERROR' && soa === undefined && !authoritative && !answer.flag_ra
  if (refers && answer.authorities?.some((record) => record.type === 'NS')) return failure(name, true)
  const lasts = soa?.type === 'SOA' ? Math.min(soa.ttl ?? 0, soa.data.minimum ?? 0, ttl) * 1000 : 0
  return {
    kind: rcode === 'NXDOMAIN' ? 'not_found' : 'no_data',
    records: [],
    canonical,
    secure,
    keepMs: bounded(lasts, limits.dnsNegativeKeptMsMax),
    answered: true,
    authoritative,
  }
}

/** Never less than a moment: a backlog to one domain does not ask for each message, whatever its records say. */
const bounded = (ms: number, most: number): number => Math.max(limits.dnsKeptMsMin, Math.min(ms, most))
