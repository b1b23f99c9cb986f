// What was read from the service, for the whole page.
import { MutationCache, notifyManager, QueryCache, QueryClient } from '@tanstack/react-query'
import { ApiError, UnreachableError } from './api.ts'
import { makeFlag } from './flag.ts'

// A change that is under way shows at its button before the next press is heard: the second press of a double click made another key.
notifyManager.setScheduler(queueMicrotask)

/** Whatever is told that the session has ended lets the page look, which then leads to the sign-in (session.tsx). */
function lookForSession(error: Error): void {
  if (error instanceof ApiError && error.code === 'not_signed_in')
    void client.invalidateQueries({ queryKey: ['session'] })
}

/** Nobody answered the last reading, or a proxy did: what is shown may be old. */
export const silence = makeFlag()
const isSilence = (error: Error): boolean =>
  error instanceof UnreachableError || (error instanceof ApiError && [502, 503, 504].includes(error.status))

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
