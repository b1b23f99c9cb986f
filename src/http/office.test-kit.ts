// The management endpoints over a database of their own: an app with its whole office, browsers that keep cookies, people and workspaces.
// Mail of the installation is caught here instead of being sent, and every answer is held against the OpenAPI document.
import { randomBytes } from 'node:crypto'
import type { FastifyInstance, LightMyRequestResponse } from 'fastify'
import { startDnsServer, type DnsServer } from '../../test/world/dns-server.ts'
import { atTheEnd, ending } from '../../test/world/ending.ts'
import { makeAccept, makeAcceptMail } from '../accept/accept.ts'
import { acceptTools, patientScanner } from '../accept/accept.test-kit.ts'
import { silentLog, type Facts } from '../base/log.ts'
import { makeVault, type Vault } from '../base/secret.ts'
import { makeZones } from '../base/zones.ts'
import { readSettings } from '../config.ts'
import { providerOf } from '../deliver/deliver.ts'
import { examine } from '../doctor/doctor.ts'
import type { WorkspaceId } from '../domain/message.ts'
import type { MemberRole, Scope } from '../domain/scopes.ts'
import { isDatabaseAway } from '../store/database.ts'
import { storeWorld, type Sender, type StoreWorld } from '../store/store.test-kit.ts'
import { readStatus } from '../store/views/message-status.ts'
import { catchUp, makeTargets, makeWebhookDesk } from '../webhooks/webhooks.ts'
import { createUser } from '../workspace/logins.ts'
import type { Notice } from '../workspace/notices.ts'
import type { Office } from '../workspace/office.ts'
import {
  createKey,
  makeAuthenticator,
  makeDomainChecker,
  makeLive,
  makePeople,
  standingOf,
} from '../workspace/workspace.ts'
import { buildApp } from './app.ts'
import { judgeDocumented } from './documented.test-kit.ts'

export interface Asked {
  readonly body?: unknown
  readonly headers?: Readonly<Record<string, string>>
}
export type Answer = LightMyRequestResponse

/** Keeps its cookies, and says where it comes from, as the dashboard does. */
export interface BrowserOf {
  readonly cookies: Map<string, string>
  ask(method: string, path: string, asked?: Asked): Promise<Answer>
}

export interface Login {
  readonly id: string
  readonly email: string
  readonly password: string
}

export interface OfficeWorld {
  readonly world: StoreWorld
  readonly app: FastifyInstance
  readonly office: Office
  readonly vault: Vault
  /** What domains are checked against. */
  readonly dns: DnsServer
  /** Mail that the installation sent. */
  readonly sent: Notice[]
  /** What the operators' log says of refused requests. */
  readonly refusals: Facts[]
  /** And of faults. */
  readonly faults: object[]
  browser(workspace?: string): BrowserOf
  login(role?: MemberRole, workspace?: WorkspaceId, operator?: boolean): Promise<Login>
  /** A browser in which somebody with this role is signed in. */
  signedIn(role: MemberRole, workspace: WorkspaceId, operator?: boolean): Promise<BrowserOf & { readonly login: Login }>
  key(workspace: WorkspaceId, ...scopes: Scope[]): Promise<string>
  /** A request with a key. */
  withKey(key: string, method: string, path: string, body?: unknown): Promise<Answer>
  sender(): Promise<Sender>
  /**
   * What `ask` is told when a change of what has this id comes between its look and its act, which waits for it; where something is made that lasts,
   * it waits for its workspace.
   */
  meanwhile<T>(change: string, id: string, ask: () => Promise<T>, workspace?: WorkspaceId): Promise<T>
  /** Until that many mails of the installation were sent; the last one. */
  mail(many: number): Promise<Notice>
}

export async function officeWorld(publicUrl = 'http://localhost:3000'): Promise<OfficeWorld> {
  const world = await storeWorld()
  const { db } = world
  const dns = await ending(startDnsServer)
  const vault = makeVault(randomBytes(32).toString('base64'))
  const sent: Notice[] = []
  const waiting: (() => void)[] = []
  const notify = (notice: Notice): Promise<boolean> => {
    sent.push(notice)
    for (const wake of waiting.splice(0)) wake()
    return Promise.resolve(true)
  }
  const scanner = patientScanner()
  const targets = makeTargets({ POSTHORN_DNS_SERVERS: [dns.address], POSTHORN_ALLOW_PRIVATE_WEBHOOKS: true })
  const tools = acceptTools(world, { scanner })
  const accept = makeAccept(tools)
  const live = makeLive()
  const office: Office = {
    db,
    vault,
    hostname: 'node.test',
    publicUrl,
    route: { kind: 'sandbox' },
    submission: { host: 'mail.example', port: 2587, tlsPort: 2465 },
    people: makePeople({ db, vault, log: silentLog, notify, publicUrl }),
    notify,
    live,
    domains: makeDomainChecker({ db, zones: makeZones({ servers: [dns.address] }), hostname: 'node.test' }),
    doctor: () =>
      examine({
        settings: readSettings({}),
        database: { db, vault },
        scanner,
        visit: () => Promise.reject(new Error('the route is sandbox')),
        systemSender: () => Promise.resolve(undefined),
        providerOf,
      }),
    accept,
    acceptMail: makeAcceptMail(tools),
    standing: (workspace) => standingOf(db, workspace, publicUrl),
  }
  const authenticator = makeAuthenticator({ db, publicUrl, log: silentLog })
  const refusals: Facts[] = []
  const faults: object[] = []
  const app = buildApp({
    log: {
      ...silentLog,
      refused: (facts) => void refusals.push(facts),
      fault: (what, error, facts) => void faults.push({ what, error, ...facts }),
    },
    trustProxy: [],
    publicUrl,
    dashboard: () => undefined,
    isDatabaseAway,
    office,
    doors: {
      authenticate: async (secret) => {
        authenticator.forget() // no notification reaches this process
        return authenticator.authenticate(secret)
      },
      accept,
      readStatus: (workspace, id) => readStatus(db, workspace, id),
      noteRefused: () => undefined,
      quota: () => Promise.resolve([]),
      ready: () => Promise.resolve({ ready: true, detail: {} }),
      webhooks: makeWebhookDesk({ db, vault, targets, timeScale: 1 }),
      catchUp: (workspace, after, limit) => catchUp(db, workspace, after, limit),
    },
  })
  atTheEnd(async () => {
    await app.close()
    await scanner.stop()
  })

  const browser = (workspace?: string): BrowserOf => {
    const cookies = new Map<string, string>()
    return {
      cookies,
      ask: async (method, path, { body, headers = {} } = {}) => {
        const answer = await app.inject({
          method: method as 'GET',
          url: `/api/v1${path}`,
          headers: {
            ...(cookies.size > 0 && { cookie: [...cookies].map(([name, value]) => `${name}=${value}`).join('; ') }),
            ...(method !== 'GET' && { 'x-posthorn-csrf': '1', origin: publicUrl, 'sec-fetch-site': 'same-origin' }),
            ...(workspace !== undefined && { 'x-posthorn-workspace': workspace }),
            ...(body !== undefined && { 'content-type': 'application/json' }),
            ...headers,
          },
          ...(body !== undefined && { payload: typeof body === 'string' ? body : JSON.stringify(body) }),
        })
        judgeDocumented(method, `/api/v1${path}`, answer)
        for (const { name, value } of answer.cookies as { name: string; value: string }[])
          if (value === '') cookies.delete(name)
          else cookies.set(name, value)
        return answer
      },
    }
  }
  let people = 0
  const login = async (role?: MemberRole, workspace?: WorkspaceId, operator = false): Promise<Login> => {
    const { id, email, password } = await createUser(db, 'cli', {
      email: `person${++people}@people.example`,
      operator,
      ...(role !== undefined && workspace !== undefined && { member: { role, workspace } }),
    })
    return { id, email, password: password as string }
  }

  return {
    world,
    app,
    office,
    vault,
    dns,
    sent,
    refusals,
    faults,
    browser,
    login,
    signedIn: async (role, workspace, operator = false) => {
      const person = await login(role, workspace, operator)
      const made = browser(workspace)
      await made.ask('POST', '/session', { body: { email: person.email, password: person.password } })
      return { ...made, login: person }
    },
    key: async (workspace, ...scopes) => (await createKey(db, workspace, { name: 'test', scopes })).key,
    withKey: async (key, method, path, body) => {
      const answer = await app.inject({
        method: method as 'GET',
        url: `/api/v1${path}`,
        headers: { authorization: `Bearer ${key}`, ...(body !== undefined && { 'content-type': 'application/json' }) },
        ...(body !== undefined && { payload: JSON.stringify(body) }),
      })
      judgeDocumented(method, `/api/v1${path}`, answer)
      return answer
    },
    sender: () => world.sender(),
    meanwhile: async (change, id, ask, workspace) => {
      const session = await world.session()
      await session.query('begin')
      if (workspace !== undefined) await session.query('select from workspaces where id = $1 for update', [workspace])
      await session.query(change, [id])
      const answer = ask()
      const waiting = `select count(*) > 0 from pg_stat_activity
        where datname = current_database() and wait_event_type = 'Lock' and query like '%from workspaces%'`
      if (workspace === undefined) await world.untilSomebodyWaits()
      else while (!(await world.value<boolean>(waiting))) continue
      await session.query('commit')
      await session.end()
      return answer
    },
    mail: async (many) => {
      while (sent.length < many) await new Promise<void>((resolve) => waiting.push(resolve))
      return sent[many - 1] as Notice
    },
  }
}

/** The token of the link in a mail. */
export function tokenOf({ bodyText }: Notice): string {
  return /token=(\S+)/.exec(bodyText)?.[1] ?? ''
}
