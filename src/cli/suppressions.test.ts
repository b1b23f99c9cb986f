// `posthorn suppression`: a list as another provider wrote it.
import { expect, test } from 'vitest'
import { commandsOver } from './command.test-kit.ts'

const { posthorn, answer } = commandsOver()

test('suppressions are taken from a pipe too', async () => {
  await answer('workspace', 'create', '--name', 'Piped')
  const { status, out, err } = await posthorn(
    ['suppression', 'import', 'Piped', '-'],
    {},
    'ada@example.org\nbob@example.org\n',
  )
  expect({ status, err }).toEqual({ status: 0, err: '' })
  expect(out).toContain('2 added, 0 already there.\n')
  expect(out).toContain('--reason hard_bounce (or complaint)')
  const bounces = 'status,reason,email,created\n5.1.1,550 5.1.1 no,cee@example.org,1443651141\n'
  const go = (...more: string[]) => posthorn(['suppression', 'import', 'Piped', '-', ...more], {}, bounces)
  expect((await go()).err).toContain('line 2: the reason "550 5.1.1 no" is no word for')
  expect((await go('--reason', 'hard_bounce', '--dry-run')).out).toBe(
    '1 would be added, 0 are already there. Nothing was written.\nLines by reason: hard_bounce 1, complaint 0, manual 0.\nColumns that were not read: status.\n',
  )
  const listed = await posthorn(['suppression', 'export', 'Piped'])
  expect(listed.out).not.toContain('cee')
  expect(listed.out).toMatch(/ada@example\.org[^]*bob@example\.org/)
  const ofBoth = [{ recipient: 'ada@example.org', reason: 'manual' }, { recipient: 'bob@example.org' }]
  expect(await answer('suppression', 'export', 'Piped')).toMatchObject(ofBoth)
  expect(await answer('suppression', 'list', 'Piped')).toMatchObject(ofBoth)
  expect((await posthorn(['suppression', 'list', 'Piped'])).out).toMatch(
    /^RECIPIENT +REASON +SINCE +BY +EVIDENCE\nada@example\.org +manual +\S+ +operator:\S+\nbob@[^\n]+\n$/,
  )
}, 180_000)
