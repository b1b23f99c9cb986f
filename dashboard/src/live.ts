// Hears that messages of the workspace have changed, and reads again what is shown. Where the stream is away, the pages ask by themselves as
// often as before; while it is there they ask seldom.
import { useQueryClient } from '@tanstack/react-query'
import { useEffect, useSyncExternalStore } from 'react'
import { withQuery } from './api.ts'

/** What a message that changes may change. */
const changes = ['messages', 'message', 'series', 'usage', 'sandbox', 'suppressions', 'queue']
const slower = 5

let isLive = false
const watchers = new Set<() => void>()
function say(to: boolean): void {
  if (isLive === to) return
  isLive = to
  for (const watcher of watchers) watcher()
}

/** The pause between two readings: longer for what the stream speaks about. */
export function useIntervalOf(name: string): (ms: number) => number {
  const live = useSyncExternalStore(
    (watcher) => {
      watchers.add(watcher)
      return () => watchers.delete(watcher)
    },
    () => isLive,
  )
  return (ms) => (live && isChanged(name) ? ms * slower : ms)
}

export function useLive(workspace: string | undefined): void {
  const client = useQueryClient()
  useEffect(() => {
    if (workspace === undefined) return
    const stream = new EventSource(withQuery('/api/v1/live', { workspace }))
    const readAgain = () => void client.invalidateQueries({ predicate: ({ queryKey }) => isChanged(queryKey[0]) })
    // After an interruption something may have been missed.
    let before = false
    stream.addEventListener('ready', () => {
      say(true)
      if (before) readAgain()
      before = true
    })
    stream.addEventListener('changed', readAgain)
    stream.addEventListener('error', () => say(false))
    return () => {
      stream.close()
      say(false)
    }
  }, [client, workspace])
}

const isChanged = (name: unknown): boolean => typeof name === 'string' && changes.includes(name)
