// A message that is not in this workspace: a link that a colleague sent, or an id of a log, may be of another one of the same person. Where it is
// found, the way there; whoever may not read it hears what everybody hears.
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { getIn, isSilence } from '../api.ts'
import { useLooking, type Workspace } from '../session.tsx'
import { isId } from '../typed.ts'
import { Button } from '../ui/button.tsx'
import { Failed } from '../ui/states.tsx'

/** They are asked one after the other: nobody waits for more. */
const askedMax = 20

async function find(id: string, workspaces: readonly Workspace[], signal: AbortSignal): Promise<Workspace | null> {
  for (const workspace of workspaces) {
    const path = `/api/v1/messages/${encodeURIComponent(id)}/timeline`
    const isThere = await getIn(workspace.workspaceId, path, signal).then(
      () => true,
      (error: unknown) => {
        // Where nobody answers it is asked again.
        if (error instanceof Error && isSilence(error)) throw error
        return false
      },
    )
    signal.throwIfAborted()
    if (isThere) return workspace
  }
  return null
}

export function Elsewhere({ id, error }: { readonly id: string; readonly error: Error }) {
  const { session, workspace, choose } = useLooking()
  const others = session.workspaces
    .filter(({ workspaceId, scopes }) => workspaceId !== workspace?.workspaceId && scopes.includes('mail.read'))
    .slice(0, askedMax)
  const { data: found } = useQuery({
    // Whoever has come into another workspace meanwhile, or out of one, has other ways.
    queryKey: ['elsewhere', id, others.map(({ workspaceId }) => workspaceId)],
    enabled: isId(id),
    queryFn: ({ signal }) => find(id, others, signal),
    staleTime: Infinity,
  })
  return (
    <>
      <Failed error={isId(id) ? error : new Error('What this address ends with is no id of a message: was it cut?')} />
      <Link to="/messages" className="justify-self-center text-accent underline">
        Search all messages
      </Link>
      {found != null && (
        <div role="status" className="grid justify-items-center gap-2 text-center">
          <p>It is a message of the workspace “{found.name}”.</p>
          <Button look="primary" onClick={() => choose(found.workspaceId)}>
            Change to {found.name}
          </Button>
        </div>
      )}
    </>
  )
}
