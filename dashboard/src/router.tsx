// Where one can go. Pages are loaded when somebody goes there, so that the first one is there soon.
import {
  createRootRoute,
  createRoute,
  createRouter,
  lazyRouteComponent,
  Link,
  Outlet,
  parseSearchWith,
  stringifySearchWith,
} from '@tanstack/react-router'
import { Compass } from 'lucide-react'
import type { ReactNode } from 'react'
import { ApiError, get, isSilence, UnreachableError } from './api.ts'
import { client, silence } from './client.ts'
import {
  readFilter,
  readRefusedFilter,
  readSandboxFilter,
  readSuppressionFilter,
  readWebhookFilter,
  readWorkspaceFilter,
} from './filters.ts'
import { followLink, requireSession } from './session.tsx'
import { Shell } from './shell.tsx'
import { Failed, Loading } from './ui/states.tsx'

const root = createRootRoute({
  component: Outlet,
  notFoundComponent: () => (
    <main className="grid min-h-dvh content-center justify-items-center gap-3 px-6 text-center">
      <Compass aria-hidden className="size-7 text-soft" strokeWidth={1.5} />
      <h1 className="text-lg font-semibold">There is no such page.</h1>
      <Link to="/" className="text-accent underline">
        To the overview
      </Link>
    </main>
  ),
  errorComponent: Broken,
})

/** A page that could not begin. What was asked of the service is asked again; a part of the page itself comes only with all of it. */
function Broken({ error }: { readonly error: unknown }) {
  const isAnswer = error instanceof ApiError || error instanceof UnreachableError
  return (
    <Failed
      error={error instanceof Error ? error : new Error(String(error))}
      again={() => (isAnswer ? void router.invalidate() : location.reload())}
    />
  )
}

const inside = createRoute({
  getParentRoute: () => root,
  id: 'inside',
  component: Shell,
  beforeLoad: async ({ location }) => followLink(await requireSession(client, location.href), location),
})

/**
 * Code that did not come is asked for again by a reload, because a new release may have other files. While nobody answers, as in a restart, the reload
 * would end at the browser's own page, from which nothing comes back by itself: it waits until somebody does.
 */
const whenAnswered =
  <Code,>(load: () => Promise<Code>) =>
  () =>
    load().catch(async (cause: unknown) => {
      while (await isSilent()) {
        silence.set(true)
        await new Promise((resolve) => setTimeout(resolve, againMs))
      }
      throw cause
    })
const againMs = 2_000
const isSilent = (): Promise<boolean> =>
  get('/api/v1/session').then(
    () => false,
    (error: unknown) => error instanceof Error && isSilence(error),
  )

type Load<Name extends string> = () => Promise<Readonly<Record<Name, () => ReactNode>>>
const lazily = <Name extends string>(load: Load<Name>, name: Name) =>
  lazyRouteComponent<Record<string, () => ReactNode>, string>(whenAnswered(load), name)

interface To {
  /** Where to go after the sign-in. */
  readonly to?: string
  /** What led there, where somebody might wonder. */
  readonly why?: 'ended' | 'reset'
}
const signIn = createRoute({
  getParentRoute: () => root,
  path: '/sign-in',
  // Only a place of ours: never another site's address.
  validateSearch: ({ to, why }: Record<string, unknown>): To => ({
    ...(typeof to === 'string' && /^\/(?![/\\])/.test(to) && { to }),
    ...((why === 'ended' || why === 'reset') && { why }),
  }),
  component: lazily(() => import('./pages/sign-in.tsx'), 'SignIn'),
})

/** Pages that have no more to say than their address. */
const page = <const Path extends string, Name extends string>(path: Path, name: Name, load: Load<Name>) =>
  createRoute({ getParentRoute: () => inside, path, component: lazily(load, name) })
const outside = <const Path extends string, Name extends string>(path: Path, name: Name, load: Load<Name>) =>
  createRoute({ getParentRoute: () => root, path, component: lazily(load, name) })

const overview = createRoute({
  getParentRoute: () => inside,
  path: '/',
  validateSearch: ({ span }: Record<string, unknown>): { readonly span?: 'days' } => (span === 'days' ? { span } : {}),
  component: lazily(() => import('./pages/overview.tsx'), 'Overview'),
})
const messages = createRoute({
  getParentRoute: () => inside,
  path: '/messages',
  validateSearch: readFilter,
  component: lazily(() => import('./pages/messages.tsx'), 'Messages'),
})
const refused = createRoute({
  getParentRoute: () => inside,
  path: '/refused',
  validateSearch: readRefusedFilter,
  component: lazily(() => import('./pages/refused.tsx'), 'Refused'),
})
const suppressions = createRoute({
  getParentRoute: () => inside,
  path: '/suppressions',
  validateSearch: readSuppressionFilter,
  component: lazily(() => import('./pages/suppressions.tsx'), 'Suppressions'),
})
const sandbox = createRoute({
  getParentRoute: () => inside,
  path: '/sandbox',
  validateSearch: readSandboxFilter,
  component: lazily(() => import('./pages/sandbox.tsx'), 'Sandbox'),
})
const webhook = createRoute({
  getParentRoute: () => inside,
  path: '/webhook',
  validateSearch: readWebhookFilter,
  component: lazily(() => import('./pages/webhook.tsx'), 'WebhookPage'),
})
const operatorWorkspaces = createRoute({
  getParentRoute: () => inside,
  path: '/operator/workspaces',
  validateSearch: readWorkspaceFilter,
  component: lazily(() => import('./pages/operator.tsx'), 'OperatorWorkspaces'),
})

export const router = createRouter({
  routeTree: root.addChildren([
    signIn,
    outside('/forgot-password', 'ForgotPassword', () => import('./pages/password-reset.tsx')),
    outside('/reset-password', 'ResetPassword', () => import('./pages/password-reset.tsx')),
    outside('/accept-invitation', 'InvitationPage', () => import('./pages/invitation.tsx')),
    inside.addChildren([
      overview,
      messages,
      page('/messages/$messageId', 'MessagePage', () => import('./pages/message.tsx')),
      refused,
      suppressions,
      sandbox,
      page('/sandbox/$mailId', 'SandboxMailPage', () => import('./pages/sandbox.tsx')),
      page('/domains', 'Domains', () => import('./pages/domains.tsx')),
      page('/domains/$domainId', 'DomainPage', () => import('./pages/domain.tsx')),
      page('/mailboxes', 'Mailboxes', () => import('./pages/mailboxes.tsx')),
      page('/settings', 'Settings', () => import('./pages/settings.tsx')),
      webhook,
      page('/workspace', 'WorkspacePage', () => import('./pages/workspace.tsx')),
      page('/upgrade', 'UpgradePage', () => import('./pages/upgrade.tsx')),
      page('/members', 'Members', () => import('./pages/members.tsx')),
      page('/audit', 'Audit', () => import('./pages/audit.tsx')),
      page('/account', 'AccountPage', () => import('./pages/account.tsx')),
      operatorWorkspaces,
      page('/operator/plans', 'OperatorPlans', () => import('./pages/operator.tsx')),
      page('/operator/queue', 'OperatorQueue', () => import('./pages/operator.tsx')),
      page('/operator/feedback', 'OperatorFeedback', () => import('./pages/feedback.tsx')),
      page('/operator/health', 'OperatorHealth', () => import('./pages/operator.tsx')),
    ]),
  ]),
  // Words stay words: a link that somebody writes by hand says `?text=4711`, without quotes.
  parseSearch: parseSearchWith((text) => text),
  stringifySearch: stringifySearchWith(String),
  defaultPreload: 'intent',
  defaultPendingComponent: () => <Loading />,
  scrollRestoration: true,
})

declare module '@tanstack/react-router' {
  interface Register {
    router: typeof router
  }
}
