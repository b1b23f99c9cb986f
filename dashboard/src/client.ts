// What was read from the service, for the whole page.
import { MutationCache, notifyManager, QueryCache, QueryClient } from '@tanstack/react-query'
import { ApiError, isSilence } from './api.ts'
import { makeFlag } from './flag.ts'

// A change that is under way shows at its button before the next press is heard: the second press of a double click made another key.
notifyManager.setScheduler(queueMicrotask)

const aboutSession: ReadonlySet<string | undefined> = new Set(['not_signed_in', 'insufficient_scope'])
/** Whatever is told that the session has ended, or that one may not do this any more, lets the page look who one is now (session.tsx). */
function lookForSession(error: Error): void {
  if (error instanceof ApiError && aboutSession.has(error.code))
    void client.invalidateQueries({ queryKey: ['session'] })
}

/** Nobody answered the last reading, or a proxy did: what is shown may be old. */
export const silence = makeFlag()

export const client = new QueryClient({
  queryCache: new QueryCache({
    onSuccess: () => silence.set(false),
    onError: (error, { queryKey }) => {
      silence.set(isSilence(error))
      if (queryKey[0] !== 'session') lookForSession(error)
    },
  }),
  mutationCache: new MutationCache({ onError: lookForSession }),
  defaultOptions: {
    // What the browser believes of the network decides nothing: Posthorn may run on this very machine. And a change that waited for the network would
    // be made by itself, minutes after somebody gave it up.
    mutations: { networkMode: 'always' },
    queries: {
      networkMode: 'always',
      refetchOnReconnect: true,
      staleTime: 5_000,
      // A no is an answer; only silence is asked again.
      retry: (failures, error) => failures < 2 && !(error instanceof ApiError && error.status < 500),
    },
  },
})
