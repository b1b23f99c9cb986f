import { expect, test } from 'vitest'
import type { WorkspaceId } from '../domain/message.ts'
import { posterWhenNeeded } from './webhooks.ts'
import type { Poster } from '../webhooks/post.ts'
import { makeTargets } from '../webhooks/webhooks.ts'

// A process that was out of files at its first event had no HTTP client until its next start, and each event used up its eight tries.
test('an HTTP client that could not be loaded is loaded for the next event, and no try is used meanwhile', async () => {
  const delivered = { durationMs: 1, status: 200 }
  const client: Poster = {
    post: () => Promise.resolve(delivered),
    giveUp: () => undefined,
    close: () => Promise.resolve(),
  }
  const answers = [() => Promise.reject(new Error('too many open files')), () => Promise.resolve(client)]
  const poster = posterWhenNeeded(
    { targets: makeTargets({ POSTHORN_DNS_SERVERS: [], POSTHORN_ALLOW_PRIVATE_WEBHOOKS: false }) },
    async () => {
      const made = await answers.shift()?.()
      return { makePoster: () => made ?? client }
    },
  )
  const url = new URL('https://there.example/')
  const post = () =>
    poster.post({ workspaceId: 'w' as WorkspaceId, url, headers: [], body: Buffer.alloc(0), now: Date.now })
  expect((await post()).lack).toBe('the HTTP client cannot be loaded (too many open files)')
  expect(await post()).toEqual(delivered)
  expect(answers).toEqual([])
})
