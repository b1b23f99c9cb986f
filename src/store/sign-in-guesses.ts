// How often a password or code was guessed wrong lately, for all nodes together: a count for each name, half of which is forgotten in a time
// that belongs to the kind of name. A name is hashed before it comes here.
import { limits } from '../config.ts'
import { inBites } from './bites.ts'
import { sql, type Db } from './database.ts'

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
const forget = sql('forget-guesses', 'delete from sign_in_guesses where name = $1')
const prune = sql(
  'prune-guesses',
  `delete from sign_in_guesses where name = any (array(
     select g.name from sign_in_guesses g where ${kept.replace('$2', '$1')} < 0.01 limit $2)) returning at`,
)

export async function countGuesses(db: Db, name: Buffer, forgottenMs: number): Promise<number> {
  return (await db.rows<{ many: number }>(count, [name, forgottenMs]))[0]?.many ?? 0
}

/** The count with this one. */
export async function addGuess(db: Db, name: Buffer, forgottenMs: number): Promise<number> {
  return (await db.rows<{ many: number }>(add, [name, forgottenMs]))[0]?.many ?? 1
}

export async function forgetGuesses(db: Db, name: Buffer): Promise<void> {
  await db.rows(forget, [name])
}

/** Drops those that are as good as forgotten, whatever their kind, `most` at once. */
export async function pruneGuesses(db: Db, most: number = limits.housekeepingRows): Promise<void> {
  await inBites(most, async () => (await db.rows(prune, [limits.codeGuessForgottenMs, most])).length)
}
