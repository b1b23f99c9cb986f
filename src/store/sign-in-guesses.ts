// How often a password or code was guessed wrong lately, for all nodes together: a count for each name, half of which is forgotten in a time
// that belongs to the kind of name. A name is hashed before it comes here.
import { randomUUIDv7 } from 'node:crypto'
import { limits } from '../config.ts'
import { dated, sql, type Db } from './database.ts'

// From 0.5 ^ 1075 on the power underflows, which is an error and no zero: one guess of long ago would lock its account up, and end every pruning.
// One from a minute ahead or more was made while the clock was ahead: it is as far from now as one of before, or it would lock its account up until
// that time comes. Nearer ones wait for the same row, and began in another order.
const agoMs = `extract(epoch from app_now() - g.at) * 1000`
const kept = `g.count * 0.5 ^ least(1000, greatest(0, ${agoMs}, -60000 - ${agoMs}) / $2::double precision)`
const count = sql('count-guesses', `select (${kept})::double precision many from sign_in_guesses g where g.name = $1`)
const add = sql(
  'add-guess',
  `insert into sign_in_guesses as g (name, count, at) values ($1, 1, app_now())
   on conflict (name) do update set count = ${kept} + 1, at = app_now() returning g.count many`,
)
// From a clock that was ahead or has been set back, an hour is over, too.
const isThisHour = `abs(${agoMs}) < 3600000`
const tell = sql(
  'tell-guess',
  `with told as (
     insert into sign_in_guesses as g (name, count, at) values ($1, 1, app_now())
     on conflict (name) do update
       set count = case when ${isThisHour} then g.count + 1 else 1 end, at = case when ${isThisHour} then g.at else app_now() end
     returning g.count::bigint times)
   insert into audit_log (id, at, actor, action, facts)
   select ${dated('$2')}, app_now(), $3, 'session.refused', json_build_object('address', $4::text, 'times', t.times)
     from told t where t.times <= $5 or t.times & (t.times - 1) = 0`,
)
const forget = sql('forget-guesses', 'delete from sign_in_guesses where name = $1')
// Name by name, so that those that stay are passed once; and a guess that is made meanwhile counts.
const prune = sql(
  'prune-guesses',
  `with page as materialized (
     select g.name, ${kept} < 0.01 "isGone" from sign_in_guesses g where g.name > $1 order by g.name limit $3),
   gone as (
     delete from sign_in_guesses g where g.name = any (array(select p.name from page p where p."isGone")) and ${kept} < 0.01)
   select p.name "last" from page p order by p.name desc limit 1`,
)

export async function countGuesses(db: Db, name: Buffer, forgottenMs: number): Promise<number> {
  return (await db.rows<{ many: number }>(count, [name, forgottenMs]))[0]?.many ?? 0
}

/** The count with this one. */
export async function addGuess(db: Db, name: Buffer, forgottenMs: number): Promise<number> {
  return (await db.rows<{ many: number }>(add, [name, forgottenMs]))[0]?.many ?? 1
}

/**
 * Writes into the installation's audit log that somebody was refused. Strangers bring it about, for ever, and the log is kept for a year: of each hour it tells the first
 * few, and then the 16th, the 32nd and so on. One statement, one commit: a refusal that took longer would tell who has an account. `name` is counted under nothing else.
 */
export async function tellGuess(db: Db, name: Buffer, actor: string, address: string): Promise<void> {
  await db.rows(tell, [name, randomUUIDv7(), actor, address, limits.guessesToldMost])
}

export async function forgetGuesses(db: Db, name: Buffer): Promise<void> {
  await db.rows(forget, [name])
}

/** Drops those that are as good as forgotten, whatever their kind, looking at `most` at once. */
export async function pruneGuesses(db: Db, most: number = limits.housekeepingRows): Promise<void> {
  for (let last: Buffer | undefined = Buffer.alloc(0); last !== undefined;)
    last = (await db.rows<{ last: Buffer }>(prune, [last, limits.codeGuessForgottenMs, most]))[0]?.last
}
