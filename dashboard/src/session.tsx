// Who looks, and at which workspace. Without a session every page leads to the sign-in, and back afterwards.
import { queryOptions, useQuery, useQueryClient, type QueryClient } from '@tanstack/react-query'
import { redirect, type ParsedLocation } from '@tanstack/react-router'
import { createContext, useContext, useEffect, useRef, useState, type ReactNode } from 'react'
import { get, isSignedOut, lookAt } from './api.ts'
import type { Account } from './shapes.ts'
import { endedBehind, shownOnce } from './ui/shown-once.tsx'
import { Failed, Loading } from './ui/states.tsx'

export type Workspace = Account['workspaces'][number]

interface Looking {
  readonly session: Account
  /** Undefined for somebody who belongs to none: an operator, perhaps. */
  readonly workspace: Workspace | undefined
  readonly choose: (id: string) => void
}
const Context = createContext<Looking | undefined>(undefined)

export function useLooking(): Looking {
  const looking = useContext(Context)
  if (looking === undefined) throw new Error('this belongs inside SignedIn')
  return looking
}

/** The workspace of a page that only stands where there is one. */
export function useWorkspace(): Workspace {
  const { workspace } = useLooking()
  if (workspace === undefined) throw new Error('this page needs a workspace')
  return workspace
}

/** Whether this person's role has a scope; the service decides, this only hides what it would refuse. */
export function useMay(scope: string): boolean {
  return useLooking().workspace?.scopes.includes(scope) === true
}

const sessionQuery = queryOptions({
  queryKey: ['session'],
  queryFn: ({ signal }) => get<Account>('/api/v1/session', signal),
  staleTime: 60_000,
  // In another tab somebody may have signed out, or somebody else in.
  refetchOnWindowFocus: 'always',
})

/** What a sign-in answered, where the browser has kept the session: a cookie for HTTPS is dropped over plain HTTP, and some take none at all. */
export async function kept<Answer>(signedIn: Promise<Answer>): Promise<Answer> {
  const answer = await signedIn
  await get('/api/v1/session').catch((cause: unknown) => {
    if (isSignedOut(cause)) throw new Error(`This browser did not keep the session. ${wayOut()}`, { cause })
  })
  return answer
}
const wayOut = (): string =>
  location.protocol === 'https:'
    ? 'Allow cookies for this address.'
    : 'If POSTHORN_PUBLIC_URL begins with https, open that address: over plain HTTP browsers drop its cookies. Else allow cookies here.'

/** Before a page inside is shown: whoever is not signed in goes there first, and comes back. */
export async function requireSession(client: QueryClient, href: string): Promise<Account> {
  try {
    return await client.ensureQueryData(sessionQuery)
  } catch (error) {
    // oxlint-disable-next-line typescript/only-throw-error -- the router's way to say it
    if (isSignedOut(error)) throw redirect({ to: '/sign-in', search: href === '/' ? {} : { to: href } })
    throw error
  }
}

/** A link in a mail names its workspace (`?workspace=`). That is said once: who then chooses another one stays there. */
export function followLink({ workspaces }: Account, { pathname, search, hash }: ParsedLocation): void {
  if (!('workspace' in search)) return
  const { workspace: named, ...rest } = search as Record<string, unknown>
  if (workspaces.some(({ workspaceId }) => workspaceId === named)) remember(named as string)
  // oxlint-disable-next-line typescript/only-throw-error -- the router's way to say it
  throw redirect({ to: pathname, search: rest, hash, replace: true })
}

export function SignedIn({ children }: { readonly children: ReactNode }) {
  const query = useQuery({ ...sessionQuery, refetchInterval: 60_000 })
  const client = useQueryClient()
  const [chosen, set] = useState(remembered)
  const id = query.data?.id
  const person = useRef(id)
  useEffect(() => {
    // Nothing that one person has read or typed stays under the name of another.
    if (id !== undefined && person.current !== undefined && person.current !== id) location.reload()
    person.current = id
  }, [id])
  const workspaces = query.data?.workspaces ?? []
  const workspace = workspaces.find(({ workspaceId }) => workspaceId === chosen) ?? workspaces[0]
  useRemembered(workspace?.workspaceId)
  const hasEnded = query.isError && isSignedOut(query.error)
  const isHeld = useHeld(hasEnded)
  if (hasEnded && !isHeld) {
    // The session has ended while somebody looked: nothing that was read may stay in the page.
    const to = location.href.slice(location.origin.length)
    location.replace(`/sign-in?${new URLSearchParams({ to, why: 'ended' }).toString()}`)
    return <Loading />
  }
  if (query.data === undefined)
    return query.isError ? <Failed error={query.error} again={() => void query.refetch()} /> : <Loading />
  // What was read belongs to the other workspace: another one was chosen here, or somebody was taken out of the one that they looked at.
  if (lookAt(workspace?.workspaceId)) client.removeQueries({ predicate: ({ queryKey }) => queryKey[0] !== 'session' })
  const choose = (id: string) => {
    remember(id)
    set(id)
  }
  return <Context value={{ session: query.data, workspace, choose }}>{children}</Context>
}

/** Whether the way to the sign-in waits, because something is shown this once: as long as somebody needs to copy it. */
function useHeld(hasEnded: boolean): boolean {
  const isShown = shownOnce.use()
  const [isOver, setOver] = useState(false)
  useEffect(() => {
    endedBehind.set(hasEnded)
    if (!hasEnded) return setOver(false)
    const timer = setTimeout(() => setOver(true), holdMs)
    return () => clearTimeout(timer)
  }, [hasEnded])
  return isShown && !isOver
}
const holdMs = 5 * 60_000

/** Each tab has its own, and a new one begins with what was looked at last. */
const memories = [() => sessionStorage, () => localStorage]
let last: string | undefined
function remembered(): string | undefined {
  for (const memory of memories) {
    try {
      const id = memory().getItem('workspace')
      if (id !== null) return id
    } catch {
      // A browser may keep nothing.
    }
  }
  return last
}
export function remember(id: string): void {
  last = id
  for (const memory of memories) {
    try {
      memory().setItem('workspace', id)
    } catch {
      // It then holds until the page is left.
    }
  }
}

/** Also what nobody has chosen here: in another tab somebody may choose another one. Who goes back to a tab opens new ones from there. */
function useRemembered(id: string | undefined): void {
  useEffect(() => {
    if (id === undefined) return
    const keep = () => remember(id)
    keep()
    window.addEventListener('focus', keep)
    return () => window.removeEventListener('focus', keep)
  }, [id])
}
