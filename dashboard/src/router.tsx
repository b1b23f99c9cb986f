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
import { ApiError, UnreachableError } from './api.ts'
import { client } from './client.ts'
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
  component: lazyRouteComponent(() => import('./pages/sign-in.tsx'), 'SignIn'),
})

const forgotPassword = createRoute({
  getParentRoute: () => root,
  path: '/forgot-password',
  component: lazyRouteComponent(() => import('./pages/password-reset.tsx'), 'ForgotPassword'),
})
const resetPassword = createRoute({
  getParentRoute: () => root,
  path: '/reset-password',
  component: lazyRouteComponent(() => import('./pages/password-reset.tsx'), 'ResetPassword'),
})
const invitation = createRoute({
  getParentRoute: () => root,
  path: '/accept-invitation',
  component: lazyRouteComponent(() => import('./pages/invitation.tsx'), 'InvitationPage'),
})

const overview = createRoute({
  getParentRoute: () => inside,
  path: '/',
  validateSearch: ({ span }: Record<string, unknown>): { readonly span?: 'days' } => (span === 'days' ? { span } : {}),
  component: lazyRouteComponent(() => import('./pages/overview.tsx'), 'Overview'),
})
const messages = createRoute({
  getParentRoute: () => inside,
  path: '/messages',
  validateSearch: readFilter,
  component: lazyRouteComponent(() => import('./pages/messages.tsx'), 'Messages'),
})
const message = createRoute({
  getParentRoute: () => inside,
  path: '/messages/$messageId',
  component: lazyRouteComponent(() => import('./pages/message.tsx'), 'MessagePage'),
})
const refused = createRoute({
  getParentRoute: () => inside,
  path: '/refused',
  validateSearch: readRefusedFilter,
  component: lazyRouteComponent(() => import('./pages/refused.tsx'), 'Refused'),
})
const suppressions = createRoute({
  getParentRoute: () => inside,
  path: '/suppressions',
  validateSearch: readSuppressionFilter,
  component: lazyRouteComponent(() => import('./pages/suppressions.tsx'), 'Suppressions'),
})
const sandbox = createRoute({
  getParentRoute: () => inside,
  path: '/sandbox',
  validateSearch: readSandboxFilter,
  component: lazyRouteComponent(() => import('./pages/sandbox.tsx'), 'Sandbox'),
})
const sandboxMail = createRoute({
  getParentRoute: () => inside,
  path: '/sandbox/$mailId',
  component: lazyRouteComponent(() => import('./pages/sandbox.tsx'), 'SandboxMailPage'),
})
const domains = createRoute({
  getParentRoute: () => inside,
  path: '/domains',
  component: lazyRouteComponent(() => import('./pages/domains.tsx'), 'Domains'),
})
const domain = createRoute({
  getParentRoute: () => inside,
  path: '/domains/$domainId',
  component: lazyRouteComponent(() => import('./pages/domain.tsx'), 'DomainPage'),
})
const mailboxes = createRoute({
  getParentRoute: () => inside,
  path: '/mailboxes',
  component: lazyRouteComponent(() => import('./pages/mailboxes.tsx'), 'Mailboxes'),
})
const settings = createRoute({
  getParentRoute: () => inside,
  path: '/settings',
  component: lazyRouteComponent(() => import('./pages/settings.tsx'), 'Settings'),
})
const webhook = createRoute({
  getParentRoute: () => inside,
  path: '/webhook',
  validateSearch: readWebhookFilter,
  component: lazyRouteComponent(() => import('./pages/webhook.tsx'), 'WebhookPage'),
})
const workspace = createRoute({
  getParentRoute: () => inside,
  path: '/workspace',
  component: lazyRouteComponent(() => import('./pages/workspace.tsx'), 'WorkspacePage'),
})
const upgrade = createRoute({
  getParentRoute: () => inside,
  path: '/upgrade',
  component: lazyRouteComponent(() => import('./pages/upgrade.tsx'), 'UpgradePage'),
})
const members = createRoute({
  getParentRoute: () => inside,
  path: '/members',
  component: lazyRouteComponent(() => import('./pages/members.tsx'), 'Members'),
})
const audit = createRoute({
  getParentRoute: () => inside,
  path: '/audit',
  component: lazyRouteComponent(() => import('./pages/audit.tsx'), 'Audit'),
})
const account = createRoute({
  getParentRoute: () => inside,
  path: '/account',
  component: lazyRouteComponent(() => import('./pages/account.tsx'), 'AccountPage'),
})
const operatorWorkspaces = createRoute({
  getParentRoute: () => inside,
  path: '/operator/workspaces',
  validateSearch: readWorkspaceFilter,
  component: lazyRouteComponent(() => import('./pages/operator.tsx'), 'OperatorWorkspaces'),
})
const operatorPlans = createRoute({
  getParentRoute: () => inside,
  path: '/operator/plans',
  component: lazyRouteComponent(() => import('./pages/operator.tsx'), 'OperatorPlans'),
})
const operatorQueue = createRoute({
  getParentRoute: () => inside,
  path: '/operator/queue',
  component: lazyRouteComponent(() => import('./pages/operator.tsx'), 'OperatorQueue'),
})
const operatorFeedback = createRoute({
  getParentRoute: () => inside,
  path: '/operator/feedback',
  component: lazyRouteComponent(() => import('./pages/feedback.tsx'), 'OperatorFeedback'),
})
const operatorHealth = createRoute({
  getParentRoute: () => inside,
  path: '/operator/health',
  component: lazyRouteComponent(() => import('./pages/operator.tsx'), 'OperatorHealth'),
})

export const router = createRouter({
  routeTree: root.addChildren([
    signIn,
    forgotPassword,
    resetPassword,
    invitation,
    inside.addChildren([
      overview,
      messages,
      message,
      refused,
      suppressions,
      sandbox,
      sandboxMail,
      domains,
      domain,
      mailboxes,
      settings,
      webhook,
      workspace,
      upgrade,
      members,
      audit,
      account,
      operatorWorkspaces,
      operatorPlans,
      operatorQueue,
      operatorFeedback,
      operatorHealth,
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
