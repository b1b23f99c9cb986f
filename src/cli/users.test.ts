// `posthorn user`: people who sign in.
import { describe, expect, test } from 'vitest'
import { commandsOver } from './command.test-kit.ts'

const { posthorn, answer } = commandsOver()

describe('a login', () => {
  test('is made with a password that is shown once, and given a workspace and the rights of an operator later', async () => {
    const workspace = await answer('workspace', 'create', '--name', 'People')
    const made = await answer(
      'user',
      'create',
      '--email',
      'Ann@Example.org',
      '--workspace',
      'People',
      '--role',
      'developer',
    )
    expect(made).toEqual({
      id: expect.stringMatching(/^[0-9a-f-]{36}$/) as string,
      email: 'Ann@example.org',
      operator: false,
      password: expect.stringMatching(/^.{20}$/) as string,
    })
    expect((await posthorn(['user', 'create', '--email', 'ann@example.org'])).err).toMatch(/already/)
    const again = await answer(
      'user',
      'create',
      '--email',
      'ann@example.org',
      '--workspace',
      String(workspace['id']),
      '--role',
      'owner',
      '--operator',
    )
    expect(again).toEqual({ id: made['id'], email: 'Ann@example.org', operator: true })
    const anew = await answer('user', 'reset', 'ann@example.org')
    expect(anew).toEqual({ ...again, password: expect.stringMatching(/^.{20}$/) as string })
    expect(await answer('user', 'set', 'ann@example.org', '--operator', 'false')).toEqual({ ...again, operator: false })
    const listed = await posthorn(['user', 'list'])
    expect(listed.out).toMatch(
      /^EMAIL +OPERATOR +SECOND FACTOR +WORKSPACES +LAST SIGN-IN\nAnn@example.org +no +no +People \(owner\) +never\n/,
    )
    expect((await posthorn(['user', 'remove', 'ann@example.org'])).err).toContain('is the only owner of "People"')
    const second = ['user', 'create', '--email', 'cy@example.org', '--workspace', 'People']
    const guessed = await posthorn(second)
    expect([guessed.status, guessed.out]).toEqual([2, ''])
    expect(guessed.err).toMatch(/--workspace needs --role.*: owner, admin, developer, viewer\n/)
    expect((await posthorn([...second, '--role', 'owner'])).out).toMatch(
      /^workspace: +People\nrole: +owner\npassword: +\S+\n\nThe password is shown once .*\n$/m,
    )
    // Whoever signs in with this one sees nothing yet.
    const alone = await posthorn(['user', 'create', '--email', 'dee@example.org'])
    expect(alone.out).toMatch(
      /no workspace yet: .*user create --email 'dee@example\.org' --workspace NAME --role ROLE\n$/,
    )
    expect((await posthorn(['user', 'reset', 'dee@example.org'])).out).toMatch(/\n\nThe password is shown once .*\n$/)
    // As with a workspace: a slip of the hand on the command line takes nobody their account.
    expect(await posthorn(['user', 'remove', 'ann@example.org'])).toEqual({
      status: 1,
      out: '',
      err: 'posthorn: Nothing was removed: give --yes to remove the login Ann@example.org for good, a member of "People" (owner), with its password, passkeys, sessions and open invitations.\n',
    })
    expect(await answer('user', 'remove', 'ann@example.org', '--yes')).toMatchObject({ id: made['id'] })
    expect((await posthorn(['user', 'reset', 'ann@example.org'])).err).toContain('There is no user "ann@example.org"')
  })

  test('keeps the name that its person has, and says what that is', async () => {
    const create = ['user', 'create', '--email', 'eve@example.org', '--operator']
    expect(await answer(...create, '--name', 'Eve')).toMatchObject({ name: 'Eve' })
    expect(await answer(...create, '--name', 'Somebody')).toMatchObject({ name: 'Eve' })
    expect((await posthorn([...create, '--name', 'Somebody'])).out).toMatch(
      /^name: +Eve\n[^]*\nThe login existed already; its name and password stay\.\n/m,
    )
  })

  test('needs an address, a workspace for a role, and a role for a workspace', async () => {
    expect((await posthorn(['user', 'create'])).status).toBe(2)
    expect((await posthorn(['user', 'create', '--email', 'no address'])).status).toBe(1)
    expect((await posthorn(['user', 'create', '--email', 'a@b.co', '--role', 'owner'])).err).toMatch(/--workspace/)
    expect((await posthorn(['user', 'create', '--email', 'a@b.co', '--role', 'king'])).status).toBe(2)
  })
})
