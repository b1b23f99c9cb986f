// `posthorn destination`: what operators set about the providers that mail goes to. Every node reads it within seconds.
import { InvalidArgumentError, Option, type Command } from 'commander'
import { given } from '../base/given.ts'
import { limits } from '../config.ts'
import { listDestinationLimits, removeDestinationLimits, setDestinationLimits } from '../store/destinations.ts'
import type { DestinationChanges, DestinationLimits } from '../store/destinations.ts'
import type { Db } from '../store/database.ts'
import { audited } from '../workspace/workspace.ts'
import { commandsOf } from './arguments.ts'
import { table } from './print.ts'
import type { Cli } from './tools.ts'

interface Given {
  connections?: number
  messagesPerConnection?: number
  rate?: number
  warmUp?: 'on' | 'off'
}

export function destinationCommands(program: Command, cli: Cli): void {
  const { command } = commandsOf(
    program,
    'destination',
    'limits towards providers: set, list and remove them (google, example.org for mx1.example.org, or *)',
  )

  command('set', 'set limits for a provider; what is not given stays, 0 goes back to what is built in')
    .argument('<name>', 'a provider, the domain of its mail hosts, or * for all without a row of their own', nameOf)
    .option('--connections <many>', 'connections at once', whole)
    .option('--messages-per-connection <many>', 'messages over one connection', whole)
    .option('--rate <many>', 'messages in a minute', rate)
    .addOption(
      new Option('--warm-up <flag>', 'begin with a few messages a day, twice as many each day').choices(['on', 'off']),
    )
    .action((name: string, wish: Given, command: Command) => {
      if (Object.keys(wish).length === 0)
        command.error('error: give --connections, --messages-per-connection, --rate or --warm-up')
      const { connections, messagesPerConnection, rate: perMinute, warmUp } = wish
      return cli.with(async ({ db, actor }) => {
        const known = await listDestinationLimits(db)
        if (known.length === limits.destinationLimitsMax && !known.some((row) => row.name === name))
          throw new Error(`There are ${known.length} destinations already: remove one first.`)
        const changes = given<DestinationChanges>({
          connections,
          messagesPerConnection,
          perMinute,
          warmUp: warmUp === undefined ? undefined : warmUp === 'on',
        })
        const set = await audited(
          db,
          { actor },
          'destination.changed',
          (tx) => setDestinationLimits(tx, name, changes),
          () => ({ target: name, facts: changes }),
        )
        cli.show(set, () => destinationTable([set]))
      })
    })
  command('list', 'list what was set').action(() =>
    cli.withExisting(async ({ db }) => {
      const all = await listDestinationLimits(db)
      cli.show(all, () => destinationTable(all))
    }),
  )
  command('remove', 'go back to what is built in')
    .argument('<name>', '', nameOf)
    .action((name: string) =>
      cli.withExisting(async ({ db, actor }) => {
        const remove = async (tx: Db) => {
          if (!(await removeDestinationLimits(tx, name)))
            throw new Error(`Nothing is set for ${name}; \`posthorn destination list\` shows what is.`)
        }
        await audited(db, { actor }, 'destination.removed', remove, () => ({ target: name }))
        cli.show({ removed: name }, () => `Removed: ${name}`)
      }),
    )
}

function nameOf(text: string): string {
  const name = text.toLowerCase()
  if (name !== '*' && !/^(?:relay )?[a-z0-9][a-z0-9.:_-]{0,252}$/.test(name))
    throw new InvalidArgumentError('It must be a provider such as google, a domain, or *.')
  return name
}

function whole(text: string): number {
  if (!/^\d{1,4}$/.test(text)) throw new InvalidArgumentError('It must be a whole number up to 9999, or 0.')
  return Number(text)
}

function rate(text: string): number {
  const match = /^(\d{1,7}(?:\.\d{1,3})?)(?:\/minute)?$/.exec(text)
  if (match === null) throw new InvalidArgumentError('It must be a number of messages in a minute, such as 30, or 0.')
  return Number(match[1])
}

function destinationTable(all: readonly DestinationLimits[]): string {
  return table(
    ['NAME', 'CONNECTIONS', 'MESSAGES PER CONNECTION', 'PER MINUTE', 'WARM-UP'],
    all.map((each) => [
      each.name,
      each.connections ?? 'built in',
      each.messagesPerConnection ?? 'built in',
      each.perMinute ?? 'built in',
      each.warmUpDays === null ? 'off' : `day ${each.warmUpDays + 1}`,
    ]),
    'Nothing is set: what is built in counts.',
  )
}
