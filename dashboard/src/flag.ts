// A yes or no that parts of the page keep an eye on.
import { useSyncExternalStore } from 'react'

export interface Flag {
  readonly set: (to: boolean) => void
  readonly use: () => boolean
}

export function makeFlag(): Flag {
  let is = false
  const watchers = new Set<() => void>()
  const watch = (watcher: () => void) => {
    watchers.add(watcher)
    return () => watchers.delete(watcher)
  }
  return {
    set: (to) => {
      if (is === to) return
      is = to
      for (const watcher of watchers) watcher()
    },
    use: () => useSyncExternalStore(watch, () => is),
  }
}
