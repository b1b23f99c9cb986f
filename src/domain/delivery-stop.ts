// Why nobody delivers, in words: the same for the log, the doctor and whoever looks at the start (docs/restore.md).

/** By the `reason` of a stop. */
const causes = {
  behind:
    'The database has lost what was written to it before (restored from a backup, or a failover that lost commits)',
  no_mark:
    'This data folder has never delivered from this database, which holds undelivered mail that another machine may have sent',
  another_server: 'The database is on another PostgreSQL cluster than before, perhaps a restored copy',
  orphaned_reply: 'A journal holds the reply to a message that the database takes for unsent, so it was restored',
  restored: 'A backup was restored, and what was sent after it was made is not known',
  timeline: 'The database was failed over, and not every node has confirmed yet that nothing of its own was lost',
} as const

/** Why one node delivers nothing while nothing stops delivery anywhere. Its log has the error. */
export const ownStops = {
  mark: 'the disk of this node does not take its mark',
  look: 'this node could not compare itself with the database yet',
} as const
export type OwnStop = keyof typeof ownStops
/** What `/readyz` says in `nodeStop`, for programs; its sentences are for people. */
export type NodeStop = OwnStop | 'silent'
/** What `/readyz` says of delivery while its process is silent. */
export const silentDelivery = 'its process does not answer'

/** A sentence without its end. Undefined for what operators have stopped themselves. */
export const causeOfStop = (reason: string): string | undefined => (causes as Readonly<Record<string, string>>)[reason]
