// What stands around every page: where one is, where one can go, and for whom.
import { Menu } from '@base-ui/react/menu'
import { useQueryClient } from '@tanstack/react-query'
import { Link, Outlet, useNavigate, useRouterState } from '@tanstack/react-router'
import {
  Activity,
  AtSign,
  Ban,
  ChevronsUpDown,
  CircleSlash,
  FlaskConical,
  Gauge,
  Globe,
  Building2,
  Keyboard,
  KeyRound,
  ListChecks,
  LogOut,
  Mail,
  MailQuestionMark,
  Menu as MenuIcon,
  ScrollText,
  Settings2,
  Stethoscope,
  UserRound,
  Users,
  Webhook,
  X,
  type LucideIcon,
} from 'lucide-react'
import { Fragment, lazy, Suspense, useEffect, useState, type ReactNode } from 'react'
import { ApiError, ask, useChange } from './api.ts'
import { silence } from './client.ts'
import { useKeptFocus } from './focus.ts'
import { useLive } from './live.ts'
import { SignedIn, useLooking } from './session.tsx'
import { useShortcuts } from './shortcuts.ts'
import { ThemeButton } from './theme.tsx'
import { IconButton } from './ui/button.tsx'
import { FormMistake } from './ui/field.tsx'
import { Page } from './ui/page.tsx'
import { Empty } from './ui/states.tsx'

const ShortcutHelp = lazy(async () => ({ default: (await import('./shortcut-help.tsx')).ShortcutHelp }))

interface Place {
  readonly to: string
  readonly icon: LucideIcon
  readonly name: string
  /** Who lacks it would find a refusal there. */
  readonly scope?: string
}
const places: readonly (readonly [group: string, places: readonly Place[]])[] = [
  [
    'Mail',
    [
      { to: '/', icon: Gauge, name: 'Overview' },
      { to: '/messages', icon: Mail, name: 'Messages' },
      { to: '/refused', icon: CircleSlash, name: 'Refused' },
      { to: '/suppressions', icon: Ban, name: 'Suppressions' },
      { to: '/sandbox', icon: FlaskConical, name: 'Sandbox inbox' },
    ],
  ],
  [
    'Sending',
    [
      { to: '/domains', icon: Globe, name: 'Domains' },
      { to: '/mailboxes', icon: AtSign, name: 'Mailboxes' },
      { to: '/settings', icon: KeyRound, name: 'API & SMTP' },
      { to: '/webhook', icon: Webhook, name: 'Webhook' },
    ],
  ],
  [
    'Workspace',
    [
      { to: '/workspace', icon: Settings2, name: 'General' },
      { to: '/members', icon: Users, name: 'Members' },
      { to: '/audit', icon: ScrollText, name: 'Audit log', scope: 'audit.read' },
    ],
  ],
]
const operatorPlaces: readonly Place[] = [
  { to: '/operator/workspaces', icon: Building2, name: 'Workspaces' },
  { to: '/operator/plans', icon: ListChecks, name: 'Plans' },
  { to: '/operator/queue', icon: Activity, name: 'Queue' },
  { to: '/operator/feedback', icon: MailQuestionMark, name: 'Feedback' },
  { to: '/operator/health', icon: Stethoscope, name: 'Health' },
]

export function Shell() {
  return (
    <SignedIn>
      <Frame>
        <Outlet />
      </Frame>
    </SignedIn>
  )
}

function Frame({ children }: { readonly children: ReactNode }) {
  const { session, workspace } = useLooking()
  useLive(workspace?.workspaceId)
  useKeptFocus()
  const isSilent = silence.use()
  const [open, setOpen] = useState(false)
  const done = () => setOpen(false)
  const [helping, help] = useShortcuts()
  const path = useRouterState({ select: ({ location }) => location.pathname })
  useEffect(() => setOpen(false), [path])
  // Where there is room the menu always stands there, and covers nothing.
  useEffect(() => {
    const roomy = matchMedia('(min-width: 64rem)')
    const close = () => setOpen(false)
    roomy.addEventListener('change', close)
    return () => roomy.removeEventListener('change', close)
  }, [])
  useEffect(() => {
    if (!open) return
    const close = (event: KeyboardEvent) => event.key === 'Escape' && setOpen(false)
    addEventListener('keydown', close)
    return () => removeEventListener('keydown', close)
  }, [open])
  return (
    <div className="min-h-dvh print:block lg:grid lg:grid-cols-[15rem_minmax(0,1fr)]">
      <a
        href="#content"
        className="fixed top-2 left-2 z-50 print:hidden -translate-y-16 rounded-lg bg-accent px-3 py-2 text-accent-ink focus:translate-y-0"
      >
        Skip to the content
      </a>
      <header className="flex items-center gap-2 border-b border-line bg-card px-3 py-2 lg:hidden print:hidden">
        <IconButton
          label={open ? 'Close the menu' : 'Open the menu'}
          aria-expanded={open}
          onClick={() => setOpen(!open)}
        >
          {open ? <X aria-hidden className="size-5" /> : <MenuIcon aria-hidden className="size-5" />}
        </IconButton>
        <Brand />
        {/* The menu that names it is closed here, and whoever is in several must not suppress somebody in the wrong one. */}
        {session.workspaces.length > 1 && (
          <p dir="auto" className="ml-auto min-w-0 truncate pl-2 text-sm text-soft">
            {workspace?.name}
          </p>
        )}
      </header>
      <aside
        className={`${open ? 'flex' : 'hidden'} flex-col gap-4 border-line bg-card p-3 max-lg:fixed max-lg:inset-x-0 max-lg:top-[3.1rem] max-lg:bottom-0 max-lg:z-30 max-lg:overflow-y-auto lg:sticky lg:top-0 lg:flex lg:h-dvh lg:border-r print:hidden`}
      >
        <div className="hidden px-2 pt-1 lg:block">
          <Brand />
        </div>
        <WorkspaceMenu done={done} />
        <Navigation done={done} />
        <PersonMenu done={done} help={() => help(true)} />
      </aside>
      <main id="content" className="min-w-0" inert={open}>
        <div role="status">
          {isSilent && (
            <p className="border-b border-warn/40 bg-warn-wash px-4 py-2 text-sm text-warn sm:px-8">
              Posthorn does not answer at the moment: what stands here may be old.
            </p>
          )}
        </div>
        <Inside path={path}>{children}</Inside>
      </main>
      {helping && (
        <Suspense>
          <ShortcutHelp done={() => help(false)} />
        </Suspense>
      )}
    </div>
  )
}

/** The page, where it is one for this person. */
function Inside({ path, children }: { readonly path: string; readonly children: ReactNode }) {
  const { session, workspace } = useLooking()
  if (path.startsWith('/operator/') && !session.operator) return <OperatorsOnly />
  if (workspace === undefined && !/^\/(?:account|operator)\b/.test(path)) return <NoWorkspace />
  return <Fragment key={workspace?.workspaceId}>{children}</Fragment>
}

/** A link that an operator passed on: nothing there would be answered, and nothing can be done. */
function OperatorsOnly() {
  const { session } = useLooking()
  return (
    <Page title="For operators">
      <Empty icon={Stethoscope} title="This page is for the operators of this installation.">
        {session.email} is not one of them. What happens in your workspace stands on its{' '}
        <Link to="/" className="text-accent underline">
          overview
        </Link>
        .
      </Empty>
    </Page>
  )
}

/** The pages of a workspace, for somebody who is in none. */
function NoWorkspace() {
  const { session } = useLooking()
  return (
    <Page title="No workspace">
      <Empty icon={Building2} title="You are in no workspace.">
        {session.operator ? (
          <>
            <code className="font-mono text-xs break-words">
              posthorn user create --email {session.email} --workspace "My workspace" --role owner
            </code>{' '}
            on the machine makes you a member of one. Which there are stands at{' '}
            <Link to="/operator/workspaces" className="text-accent underline">
              Workspaces
            </Link>
            .
          </>
        ) : (
          <>Ask an owner or an admin of one to invite {session.email}; the invitation comes by mail.</>
        )}
      </Empty>
    </Page>
  )
}

function Brand() {
  return (
    <Link to="/" className="flex shrink-0 items-center gap-2 rounded font-semibold">
      <img src="/posthorn.svg" alt="" className="size-6" />
      Posthorn
    </Link>
  )
}

function Navigation({ done }: { readonly done: () => void }) {
  const { session, workspace } = useLooking()
  const groups = [
    ...(workspace === undefined ? [] : places),
    ...(session.operator ? [['Operator', operatorPlaces] as const] : []),
  ]
  const isOpen = ({ scope }: Place) => scope === undefined || workspace?.scopes.includes(scope) === true
  return (
    // On a low screen the places scroll, and who is signed in stays in sight.
    <nav aria-label="Main" className="grid content-start gap-4 lg:-mx-1 lg:min-h-0 lg:overflow-y-auto lg:px-1">
      {groups.map(([group, entries]) => (
        <div key={group} className="grid gap-0.5">
          <p className="px-2 pb-0.5 text-xs font-medium text-soft">{group}</p>
          {entries.filter(isOpen).map(({ to, icon: Icon, name }) => (
            <Link
              key={to}
              to={to}
              activeOptions={{ exact: to === '/', includeSearch: false }}
              onClick={done}
              className="flex min-h-8 items-center gap-2.5 rounded-md px-2 text-sm text-soft hover:bg-sunken hover:text-ink aria-[current=page]:bg-sunken aria-[current=page]:font-medium aria-[current=page]:text-ink"
            >
              <Icon aria-hidden className="size-4 shrink-0" />
              {name}
            </Link>
          ))}
        </div>
      ))}
    </nav>
  )
}

/** As large as the screen has room for, beyond that it scrolls: somebody may be in a hundred workspaces, and names are long. */
const menu =
  'max-h-(--available-height) max-w-[min(28rem,var(--available-width))] min-w-52 overflow-y-auto rounded-lg border border-line bg-card p-1 text-sm wrap-anywhere shadow-lg'
const item =
  'flex w-full cursor-pointer items-center gap-2 rounded-md px-2 py-1.5 text-left outline-none data-highlighted:bg-sunken'

function WorkspaceMenu({ done }: { readonly done: () => void }) {
  const { session, workspace, choose } = useLooking()
  const navigate = useNavigate()
  const { pathname, search } = useRouterState({ select: ({ location }) => location })
  if (workspace === undefined) return null
  const change = (id: string) => {
    choose(id)
    done()
    // One thing of the other workspace is not here; its list is. Nor is what a list was narrowed to by an id.
    const [, list] = /^(\/(?:messages|domains|sandbox))\/./.exec(pathname) ?? []
    const { mailboxId, messageId, ...rest } = search as Readonly<Record<string, unknown>>
    if (list !== undefined) void navigate({ to: list })
    else if (mailboxId !== undefined || messageId !== undefined)
      void navigate({ to: pathname, search: rest, replace: true })
  }
  if (session.workspaces.length === 1)
    return (
      <p dir="auto" className="truncate rounded-lg border border-line px-3 py-1.5 text-left text-sm font-medium">
        {workspace.name}
      </p>
    )
  return (
    <Menu.Root>
      <Menu.Trigger className="flex items-center justify-between gap-2 rounded-lg border border-line px-3 py-1.5 text-sm font-medium hover:bg-sunken">
        <span dir="auto" className="truncate">
          {workspace.name}
        </span>
        <ChevronsUpDown aria-hidden className="size-4 shrink-0 text-soft" />
        <span className="sr-only">Change the workspace</span>
      </Menu.Trigger>
      <Menu.Portal>
        <Menu.Positioner className="z-50" sideOffset={4} align="start">
          <Menu.Popup className={menu}>
            {session.workspaces.map(({ workspaceId, name }) => (
              <Menu.Item key={workspaceId} className={item} onClick={() => change(workspaceId)}>
                <span dir="auto">{name}</span>
              </Menu.Item>
            ))}
          </Menu.Popup>
        </Menu.Positioner>
      </Menu.Portal>
    </Menu.Root>
  )
}

function PersonMenu({ done, help }: { readonly done: () => void; readonly help: () => void }) {
  const { session } = useLooking()
  const client = useQueryClient()
  const navigate = useNavigate()
  const toAccount = () => {
    done()
    void navigate({ to: '/account' })
  }
  const signOut = useChange(
    async () => {
      try {
        await ask('DELETE', '/api/v1/session')
      } catch (error) {
        // It has ended already.
        if (!(error instanceof ApiError && error.status === 401)) throw error
      }
    },
    [],
    () => {
      client.clear()
      void navigate({ to: '/sign-in' })
    },
  )
  return (
    <div className="mt-auto grid gap-2 pt-2">
      <FormMistake error={signOut.error} />
      <div className="flex items-center gap-1">
        <Menu.Root>
          <Menu.Trigger className="flex min-w-0 flex-1 items-center gap-2 rounded-md px-2 py-1.5 text-left text-sm hover:bg-sunken">
            <UserRound aria-hidden className="size-4 shrink-0 text-soft" />
            <span dir="auto" className="truncate">
              {session.name ?? session.email}
            </span>
          </Menu.Trigger>
          <Menu.Portal>
            <Menu.Positioner className="z-50" side="top" sideOffset={4} align="start">
              <Menu.Popup className={menu}>
                <p className="truncate px-2 py-1.5 text-soft">{session.email}</p>
                <Menu.Item className={item} onClick={toAccount}>
                  <UserRound aria-hidden className="size-4" /> Account
                </Menu.Item>
                <Menu.Item className={item} onClick={help}>
                  <Keyboard aria-hidden className="size-4" /> Keys
                </Menu.Item>
                <Menu.Item className={item} onClick={() => signOut.mutate(undefined)}>
                  <LogOut aria-hidden className="size-4" /> Sign out
                </Menu.Item>
              </Menu.Popup>
            </Menu.Positioner>
          </Menu.Portal>
        </Menu.Root>
        <ThemeButton />
      </div>
    </div>
  )
}
