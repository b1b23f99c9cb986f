// Hears that messages of the workspace have changed, and reads again what is shown. Where the stream is away, the pages ask by themselves as
// often as before; while it is there they ask seldom.
import { useQueryClient, type Query } from '@tanstack/react-query'
import { useEffect } from 'react'
import { withQuery } from './api.ts'
import { makeFlag } from './flag.ts'

/** What a message that changes may change. */
const changes = ['messages', 'message', 'series', 'usage', 'sandbox', 'suppressions', 'queue']
const slower = 5

/** After a refusal, which browsers take for the last word: a proxy speaks so while the service starts anew. */
const againMs = 30_000

const live = makeFlag()

/** The pause between two readings: longer for what the stream speaks about. */
export function useIntervalOf(name: string): (ms: number) => number {
  const isLive = live.use()
  return (ms) => (isLive && isChanged(name) ? ms * slower : ms)
}

/** Open where somebody looks: a browser has six connections to a service over HTTP/1.1, and a stream in each tab would take them all. */
export function useLive(workspace: string | undefined): void {
  const client = useQueryClient()
  useEffect(() => {
    if (workspace === undefined) return
    const readAgain = (which: (query: Query) => boolean = () => true) =>
      void client.invalidateQueries({
        predicate: (query) => isChanged(query.queryKey[0]) && !isLong(query.state.data) && which(query),
      })
    let stream: EventSource | undefined
    let again: ReturnType<typeof setTimeout> | undefined
    const close = () => {
      clearTimeout(again)
      stream?.close()
      stream = undefined
      live.set(false)
    }
    const open = () => {
      const opened = new EventSource(withQuery('/api/v1/live', { workspace }))
      opened.addEventListener('ready', () => {
        live.set(true)
        // What changed between the last reading and this, the first one of a page too, was told to nobody. What is being read is new enough.
        readAgain(({ state }) => state.fetchStatus === 'idle')
      })
      opened.addEventListener('changed', () => readAgain())
      opened.addEventListener('error', () => {
        live.set(false)
        if (opened.readyState === EventSource.CLOSED) again = setTimeout(open, againMs)
      })
      stream = opened
    }
    const look = () => {
      close()
      if (document.visibilityState === 'visible') open()
    }
    look()
    document.addEventListener('visibilitychange', look)
    return () => {
      document.removeEventListener('visibilitychange', look)
      close()
    }
  }, [client, workspace])
}

/** Several pages of a list are not read again by themselves: that is a request for each of them, at every change. */
export function isLong(data: unknown): boolean {
  return (
    typeof data === 'object' && data !== null && 'pages' in data && Array.isArray(data.pages) && data.pages.length > 1
  )
}

const isChanged = (name: unknown): boolean => typeof name === 'string' && changes.includes(name)
