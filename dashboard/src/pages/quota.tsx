// What the workspace may send, and how much of it it has.
import { Link } from '@tanstack/react-router'
import { Gauge } from 'lucide-react'
import { useRead, withQuery } from '../api.ts'
import { byService, serviceNow } from '../clock.ts'
import { useMay } from '../session.tsx'
import type { PageOf, RefusedSubmission, Usage } from '../shapes.ts'
import { Notice } from '../ui/notice.tsx'
import { exactly, Time } from '../ui/time.tsx'

type Window = Usage['windows'][number]
const windowWords = { hour: 'Last 60 minutes', day: 'Today (UTC)', month: 'This month (UTC)' } as const
const limitWords = { hour: 'in 60 minutes', day: 'a day (UTC)', month: 'a month (UTC)' } as const
const codes = { hour: 'hourly_limit_reached', day: 'daily_limit_reached', month: 'monthly_limit_reached' } as const

const isUsedUp = ({ used, limit }: Window): boolean => limit !== undefined && used >= limit
/** From here on somebody should know before it is used up. */
const nearly = 0.9

/** The plan and what of it is used; with the way to another one, but for the page that is it. */
export function Quota({ usage, isLinked = true }: { readonly usage: Usage; readonly isLinked?: boolean }) {
  return (
    <div className="grid gap-4">
      <p className="text-sm">
        <strong className="font-medium">{usage.plan}</strong>
        {!usage.apiSending && ' does not include sending.'}
        {isLinked && usage.upgradeUrl !== undefined && !usage.apiSending && <ChangePlan url={usage.upgradeUrl} />}
      </p>
      {usage.windows.map((window) => (
        <WindowUse key={window.window} window={window} />
      ))}
    </div>
  )
}

const ChangePlan = ({ url }: { readonly url: string }) => (
  <a href={url} className="ml-2 text-accent underline">
    Change it
  </a>
)

const looks = {
  free: ['', undefined],
  nearly: ['text-warn', 'Nearly used up'],
  'used-up': ['text-bad', 'Used up'],
} as const

function WindowUse({ window }: { readonly window: Window }) {
  const { window: name, used, limit } = window
  const look = isUsedUp(window) ? 'used-up' : limit !== undefined && used >= nearly * limit ? 'nearly' : 'free'
  const [colour, words] = looks[look]
  return (
    <div className="grid gap-1">
      <p className="flex flex-wrap justify-between gap-x-2 text-sm">
        <span className="text-soft">{windowWords[name]}</span>
        <span className="tabular-nums">
          {words !== undefined && <span className={`mr-2 font-medium ${colour}`}>{words}</span>}
          {used.toLocaleString()}
          {limit !== undefined && <span className="text-soft"> of {limit.toLocaleString()}</span>}
        </span>
      </p>
      {limit !== undefined && (
        <meter
          className="quota h-1.5 w-full"
          data-look={look}
          min={0}
          max={Math.max(limit, 1)}
          value={limit === 0 ? 1 : used}
          aria-label={`${windowWords[name]}: ${used} of ${limit}`}
        />
      )}
    </div>
  )
}

const minuteMs = 60_000
/** Whole seconds were told, and the answer took a while: a day and a month begin at a full minute, and of the hour nothing is promised too early. */
const resetAt = (name: Window['window'], about: number) =>
  (name === 'hour' ? Math.ceil : Math.round)(about / minuteMs) * minuteMs

/** Nothing while there is room. `readAt` is by the browser's clock. */
export function QuotaTrouble({ usage, readAt }: { readonly usage: Usage | undefined; readonly readAt: number }) {
  // The longest wait: when the month is used up, waiting for the hour is no way out.
  const window = usage?.apiSending === true ? usage.windows.findLast(isUsedUp) : undefined
  if (usage === undefined || window === undefined) return null
  const { window: name, used, limit = 0, resetSeconds = 0 } = window
  const reset = new Date(resetAt(name, byService(readAt) + resetSeconds * 1_000))
  return (
    <Notice label="Limit reached" title="The plan is used up: sending is refused" icon={Gauge}>
      {limit === 0 ? (
        <p>
          The plan “{usage.plan}” allows no message {limitWords[name]}, so whatever is handed in is refused.
        </p>
      ) : (
        <p>
          The plan “{usage.plan}” allows {limit.toLocaleString()} {limit === 1 ? 'message' : 'messages'}{' '}
          {limitWords[name]}, and {used.toLocaleString()} {used === 1 ? 'is' : 'are'} counted. There is room again{' '}
          <Time at={reset.toISOString()} /> ({exactly(reset)}); until then whatever is handed in is refused. What was
          accepted before goes out.
        </p>
      )}
      <RefusedToday name={name} />
      {usage.upgradeUrl !== undefined && (
        <p>
          Is it too little?{' '}
          <a href={usage.upgradeUrl} className="text-accent underline">
            Another plan
          </a>
        </p>
      )}
    </Notice>
  )
}

const countedMost = 200
/** Refused for this limit since midnight (UTC): one page of them, however many there are. */
function RefusedToday({ name }: { readonly name: Window['window'] }) {
  const code = codes[name]
  const from = `${new Date(serviceNow()).toISOString().slice(0, 10)}T00:00:00.000Z`
  const { data } = useRead<PageOf<RefusedSubmission>>(
    ['refused-today', code, from],
    withQuery('/api/v1/refused-submissions', { code, from, limit: countedMost }),
    { enabled: useMay('mail.read'), refetchInterval: 30_000 },
  )
  if (data === undefined) return null
  const { items, next } = data
  return (
    <p>
      {items.length === 0 && next === undefined ? (
        'Nothing was refused for it today.'
      ) : (
        <>
          Refused for it today (UTC):{' '}
          <Link to="/refused" search={{ code }} className="text-accent underline">
            {next === undefined ? items.length.toLocaleString() : `more than ${items.length.toLocaleString()}`}
          </Link>
        </>
      )}
    </p>
  )
}
