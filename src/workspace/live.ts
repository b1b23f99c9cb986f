// Who is looking at which workspace in this process, and that something has changed there. Says only that, not what: whoever looks asks again,
// with their own rights.
import type { WorkspaceId } from '../domain/message.ts'

export interface Live {
  /** Until the returned function is called. */
  watch(workspace: WorkspaceId, changed: () => void): () => void
  /** Ids with commas between them, or `*` for all: what came on the channel `posthorn_live`. */
  heard(workspaces: string): void
}

export function makeLive(): Live {
  const watchers = new Map<string, Set<() => void>>()
  return {
    watch: (workspace, changed) => {
      const own = watchers.get(workspace) ?? new Set()
      watchers.set(workspace, own.add(changed))
      return () => {
        own.delete(changed)
        if (own.size === 0 && watchers.get(workspace) === own) watchers.delete(workspace)
      }
    },
    heard: (workspaces) => {
      const names = workspaces === '*' ? [...watchers.keys()] : workspaces.split(',')
      for (const name of names) for (const changed of watchers.get(name) ?? []) changed()
    },
  }
}
