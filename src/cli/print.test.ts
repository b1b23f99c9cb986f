// What strangers wrote, on an operator's terminal.
import { Readable } from 'node:stream'
import { describe, expect, test } from 'vitest'
import { longTable, makePrinter, sentenceOf, table } from './print.ts'

test.each([true, false])('no text of a stranger moves the cursor (as JSON: %s)', (json) => {
  let out = ''
  const said = '550 \u001b[2J\u009b2J\u007f\u0085 no'
  makePrinter(json, (text) => (out += text)).show({ said }, () => table(['SAID'], [[said]], ''))
  expect(out).not.toMatch(/[\0-\x09\x0b-\x1f\x7f-\x9f]/)
  if (json) expect(JSON.parse(out)).toEqual({ said })
})

test('whatever a command says, and in whatever way it fails: lines stay lines, and no text turns the reading direction for what follows', () => {
  const said = 'mx\u001b[2J.example\t\u202emoc.elpmaxe\u2066 and\nmore\r'
  const tamed = 'mx [2J.example\t moc.elpmaxe  and\nmore '
  let out = ''
  makePrinter(false, (text) => (out += text)).show({}, () => said)
  expect(out).toBe(`${tamed}\n`)
  expect(sentenceOf(new Error(said, { cause: new Error(said) }))).toBe(`${tamed}: ${tamed}`)
  out = ''
  makePrinter(true, (text) => (out += text)).show({ said }, () => '')
  expect(out).not.toMatch(/[\u202e\u2066]/)
  expect(JSON.parse(out)).toEqual({ said })
})

test('a list that is as long as was asked for says that there may be more', () => {
  const shown = (limit?: number) => table(['SAID'], [['a'], ['b']], 'Nothing.', limit)
  expect(shown(2)).toBe('SAID\na\nb\n\n(the latest 2; a higher --limit shows older ones)')
  expect(shown(3)).toBe('SAID\na\nb')
  expect(shown()).toBe('SAID\na\nb')
})

test('as many rows as somebody asks for are shown', () => {
  const rows = Array.from({ length: 200_000 }, (_, at) => [at, 'sent'])
  expect(table(['ID', 'STATE'], rows, '').endsWith('\n199999  sent')).toBe(true)
})

test('columns stand below each other in any script, as a terminal draws it', () => {
  expect(
    table(
      ['SUBJECT', 'STATE'],
      [
        ['ご注文', 'sent'],
        ['Gru\u0308ße 🎉', 'sent'],
        ['「A」！', 'sent'],
        ['abc', 'sent'],
      ],
      '',
    ),
  ).toBe(['SUBJECT   STATE', 'ご注文    sent', 'Gru\u0308ße 🎉  sent', '「A」！   sent', 'abc       sent'].join('\n'))
})

describe('a list of any length', () => {
  const heads = ['SAID', 'AT']
  const rowOf = (said: string) => [said, 'now']
  async function* rowsOf(values: AsyncIterable<string>) {
    for await (const value of values) yield rowOf(value)
  }
  const shown = async (json: boolean, values: () => AsyncIterable<string>): Promise<string> => {
    let out = ''
    await makePrinter(json, (text) => (out += text)).showEach(values(), (all) =>
      longTable(heads, rowsOf(all), 'Nothing.'),
    )
    return out
  }

  test.each([0, 1, 2, 1_000])('is written as one that is held: %i of them', async (many) => {
    const all = Array.from({ length: many }, (_, n) => `550 \u001b[2J ${n}\u202e`)
    let whole = ''
    const printer = (json: boolean) => makePrinter(json, (text) => (whole += text))
    for (const json of [true, false]) {
      whole = ''
      printer(json).show(all, () => table(heads, all.map(rowOf), 'Nothing.'))
      expect(await shown(json, () => Readable.from(all))).toBe(whole)
    }
  })

  test.each([true, false])(
    'is let go as it is written, so that millions take no more memory than some (as JSON: %s)',
    async (json) => {
      const many = 5_000
      let written = 0
      let heldMost = 0
      async function* values() {
        for (let n = 0; n < many; n++) {
          heldMost = Math.max(heldMost, n - written)
          yield `word ${n}`
        }
      }
      const printer = makePrinter(json, (text) => (written += text.match(/word/g)?.length ?? 0))
      await printer.showEach(values(), (all) => longTable(heads, rowsOf(all), ''))
      expect(written).toBe(many)
      expect(heldMost).toBeLessThanOrEqual(1_000)
    },
  )

  test('has columns that a wider cell widens from its piece on', async () => {
    const all = Array.from({ length: 2_500 }, (_, n) => (n === 1_500 ? 'a much longer word' : 'word'))
    const lines = (await shown(false, () => Readable.from(all))).split('\n')
    expect(lines.slice(0, 3)).toEqual(['SAID  AT', 'word  now', 'word  now'])
    expect(lines.slice(-2)).toEqual(['word                now', ''])
    expect(lines).toHaveLength(1 + all.length + 1)
  })
})
