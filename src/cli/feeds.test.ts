// `posthorn feed`: the secret is shown once.
import { expect, test } from 'vitest'
import { commandsOver } from './command.test-kit.ts'

const { posthorn, answer } = commandsOver()

test('a feed is made with its secret shown once, listed without it, and removed', async () => {
  const made = await answer('feed', 'add', 'postmark')
  const { id, secret, url } = made as { id: string; secret: string; url: string }
  expect(url).toBe(`http://posthorn:${secret}@localhost:3000/feeds/${id}`)
  expect(await answer('feed', 'add', 'ses', '--topic', 'arn:aws:sns:eu-west-1:123456789012:mail')).toMatchObject({
    provider: 'ses',
    workspace: null,
  })
  const { out } = await posthorn(['feed', 'list'])
  expect(out).toContain(id)
  expect(out).not.toContain(secret)
  expect(await answer('feed', 'remove', id)).toMatchObject({ id })
  for (const args of [
    ['remove', id],
    ['remove', 'x'],
    ['add', 'mailgun', '--key-file', '/nowhere'],
  ])
    expect(await posthorn(['feed', ...args])).toMatchObject({ status: 1, out: '' })
  for (const args of [['ses'], ['mailgun'], ['postmark', '--topic', 'arn:aws:sns:eu-west-1:123456789012:mail']])
    expect(await posthorn(['feed', 'add', ...args])).toMatchObject({ status: 2, out: '' })
  expect(await answer('feed', 'list')).toHaveLength(1)
})

test('a feed whose address no provider can reach says so, and what to set', async () => {
  const told = async (more: NodeJS.ProcessEnv) => (await posthorn(['feed', 'add', 'generic'], more)).out
  expect(await told({})).toMatch(/Set POSTHORN_PUBLIC_URL, .*in place of http:\/\/localhost:3000\.\n$/)
  const there = await told({ POSTHORN_PUBLIC_URL: 'https://post.example.org' })
  expect(there).toMatch(/^url: +https:\/\/post\.example\.org\/feeds\/\S+$/m)
  expect(there).not.toContain('POSTHORN_PUBLIC_URL')
})
