// How much of everything an exploration has: each trouble so many times, and everything else as often as it can happen. So each is finite, and
// explored to its end.

/** What is used up by a step. */
export interface Budgets {
  /** A process dies. */
  readonly kills: number
  /** One dies with its disk, and comes back as somebody new. */
  readonly disks: number
  /** An answer of the database is lost, or a statement with it. */
  readonly unheard: number
  /** A statement that was given up lands later. */
  readonly late: number
  /** The next of all terms runs out: a wait between tries, a lease, a message's time. */
  readonly times: number
  readonly heartbeats: number
  /** A backup is made, or a standby has received all until here. */
  readonly copies: number
  /** That copy goes on as the database. */
  readonly failovers: number
  /** An operator decides. */
  readonly recovers: number
  readonly suppressions: number
  /** Somebody cancels what waits. */
  readonly cancels: number
  /** A person sends a message again. */
  readonly again: number
  /** The database's clock is set back. */
  readonly clocks: number
  /** A node is asked to stop. */
  readonly stops: number
}

export interface Scope {
  readonly says: string
  readonly nodes: 1 | 2
  readonly messages: 1 | 2
  /** The second message is accepted at any time, and not before everything else. */
  readonly acceptedLater?: boolean
  readonly triesMax: number
  /** What a receiver may say to the dot, and before it. */
  readonly refusals?: boolean
  /** A message's time is over behind the first lease. */
  readonly shortLived?: boolean
  /** Nodes find nobody, and somebody is there again. */
  readonly outOfReach?: boolean
  /** The copy is put back by `posthorn restore`, which stops delivery by itself. */
  readonly restored?: boolean
  readonly left: Partial<Budgets>
}

export const nothing: Budgets = {
  kills: 0,
  disks: 0,
  unheard: 0,
  late: 0,
  times: 0,
  heartbeats: 0,
  copies: 0,
  failovers: 0,
  recovers: 0,
  suppressions: 0,
  cancels: 0,
  again: 0,
  clocks: 0,
  stops: 0,
}

export const scopes = {
  unheard: {
    says: 'answers of the database that nobody hears',
    nodes: 2,
    messages: 1,
    triesMax: 2,
    left: { unheard: 2, times: 2 },
  },
  late: {
    says: 'statements that land late',
    nodes: 2,
    messages: 1,
    triesMax: 2,
    left: { late: 2, times: 2 },
  },
  deaths: {
    says: 'nodes that die, and all that receivers say',
    nodes: 2,
    messages: 1,
    triesMax: 2,
    refusals: true,
    left: { kills: 1, times: 2, unheard: 1 },
  },
  terms: {
    says: 'a suppression, heartbeats, and a time that runs out',
    nodes: 2,
    messages: 1,
    triesMax: 3,
    shortLived: true,
    left: { late: 1, times: 3, heartbeats: 1, suppressions: 1 },
  },
  failover: {
    says: 'a standby that lacks the last commits, a node that dies, an operator, and all that receivers say',
    nodes: 2,
    messages: 1,
    triesMax: 2,
    refusals: true,
    left: { kills: 1, times: 1, copies: 1, failovers: 1, recovers: 1 },
  },
  failovers: {
    says: 'two of them, behind one another, and all that receivers say',
    nodes: 1,
    messages: 1,
    triesMax: 2,
    refusals: true,
    left: { kills: 1, copies: 2, failovers: 2, recovers: 2 },
  },
  backup: {
    says: 'a backup that is put back, a node that dies, and all that receivers say',
    nodes: 1,
    messages: 1,
    triesMax: 2,
    refusals: true,
    restored: true,
    left: { kills: 1, times: 1, copies: 1, failovers: 1, recovers: 2 },
  },
  disk: {
    says: 'a node that comes back without its disk, and a standby that lacks the last commits',
    nodes: 2,
    messages: 1,
    triesMax: 2,
    left: { disks: 1, kills: 1, copies: 1, failovers: 1, recovers: 1 },
  },
  outOfReach: {
    says: 'what waits because nobody was found, and a standby that lacks the last commits',
    nodes: 1,
    messages: 1,
    triesMax: 3,
    outOfReach: true,
    left: { times: 1, copies: 1, failovers: 1, recovers: 1 },
  },
  two: {
    says: 'two messages, the second accepted at any time, and a standby that lacks the last commits',
    nodes: 1,
    messages: 2,
    acceptedLater: true,
    triesMax: 1,
    left: { kills: 1, copies: 1, failovers: 1, recovers: 1 },
  },
  twoFailovers: {
    says: 'two messages, over two failovers behind one another',
    nodes: 1,
    messages: 2,
    acceptedLater: true,
    triesMax: 1,
    left: { copies: 2, failovers: 2, recovers: 2 },
  },
  cancelled: {
    says: 'what waits is cancelled, at any moment of a failover, too',
    nodes: 1,
    messages: 1,
    triesMax: 2,
    refusals: true,
    left: { times: 1, cancels: 1, copies: 1, failovers: 1, recovers: 1 },
  },
  expiring: {
    says: "mail that expires in the queue or in somebody's hands, and a standby that lacks the last commits",
    nodes: 1,
    messages: 1,
    triesMax: 3,
    shortLived: true,
    left: { times: 3, unheard: 1, suppressions: 1, copies: 1, failovers: 1, recovers: 1 },
  },
  again: {
    says: 'what failed or is unknown is sent again by two people, a node that dies, and all that receivers say',
    nodes: 2,
    messages: 1,
    triesMax: 1,
    refusals: true,
    left: { kills: 1, times: 1, again: 2 },
  },
  againBehind: {
    says: 'what failed or is unknown is sent again by two people, and a standby that lacks the last commits',
    nodes: 1,
    messages: 1,
    triesMax: 1,
    refusals: true,
    left: { times: 1, again: 2, copies: 1, failovers: 1, recovers: 1 },
  },
  peace: {
    says: 'two nodes that stop at the same moment, and answers of the database that nobody hears',
    nodes: 2,
    messages: 1,
    triesMax: 2,
    refusals: true,
    left: { stops: 2, unheard: 1, times: 1 },
  },
  clocks: {
    says: 'the clock of the database is set back, and a node that dies',
    nodes: 2,
    messages: 1,
    triesMax: 2,
    refusals: true,
    left: { clocks: 1, times: 2, kills: 1 },
  },
  clocksBehind: {
    says: 'the clock of the database is set back, or that of the standby which takes over is behind',
    nodes: 1,
    messages: 1,
    triesMax: 2,
    refusals: true,
    left: { clocks: 1, times: 1, copies: 1, failovers: 1, recovers: 1 },
  },
} as const satisfies Record<string, Scope>

export type ScopeName = keyof typeof scopes

/** Small ones, each of which has just what a slip needs. */
const sharp = {
  lands: { ...scopes.late, nodes: 1, left: { late: 1, times: 1, heartbeats: 1 } },
  suppressed: { ...scopes.late, nodes: 1, left: { late: 1, suppressions: 1 } },
  refused: { ...scopes.deaths, nodes: 1, left: { unheard: 1, times: 2 } },
} as const satisfies Record<string, Scope>

/**
 * Ways to get the protocol wrong, in the worker, the node or the operator's command, and those of the database's functions (the model's flaws); and
 * where each is to be seen.
 */
export const slips = {
  'no arm': scopes.deaths,
  'arm after the dot': scopes.deaths,
  'zero rows taken as an arm': scopes.late,
  'unknown arm taken as an arm': scopes.unheard,
  'disarm after the dot': scopes.deaths,
  'retry after a lost reply': scopes.deaths,
  'the dot does not wait for the mark': scopes.failover,
  'new connections are not compared': scopes.failover,
  'the journal is not told before the first claim': scopes.failover,
  'what may have gone early is spared': scopes.outOfReach,
  'reaper without conditions': sharp.lands,
  'finish without epoch': scopes.unheard,
  'late proof without epoch': sharp.refused,
  'suppression before lock': sharp.suppressed,
  'old row revived': scopes.late,
  'arm without epoch': scopes.late,
  'no pause after a failover': scopes.failover,
  'what is under way is not assumed to be sent': scopes.failover,
  'a failure counts though nobody has decided': { ...scopes.failover, nodes: 1, refusals: true },
  'ends are told on a connection that was not compared': { ...scopes.failover, nodes: 1, refusals: true },
  'cancelled behind a failover that nobody has noticed': scopes.cancelled,
  'cancelled though somebody has it': scopes.cancelled,
  'sent again without its key': scopes.again,
  'a stop is as old as its clock says': scopes.clocksBehind,
} as const satisfies Record<string, Scope>

export type Slip = keyof typeof slips
export const isSlip = (name: string): name is Slip => name in slips
