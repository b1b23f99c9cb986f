// What the workspace may send, and how much of it it has.
import type { Usage } from '../shapes.ts'

const windowWords = { hour: 'Last 60 minutes', day: 'Today (UTC)', month: 'This month (UTC)' } as const

/** The plan and what of it is used; with the way to another one, but for the page that is it. */
export function Quota({ usage, isLinked = true }: { readonly usage: Usage; readonly isLinked?: boolean }) {
  return (
    <div className="grid gap-4">
      <p className="text-sm">
        <strong className="font-medium">{usage.plan}</strong>
        {!usage.apiSending && ' does not include sending.'}
        {isLinked && usage.upgradeUrl !== undefined && !usage.apiSending && (
          <a href={usage.upgradeUrl} className="ml-2 text-accent underline">
            Change it
          </a>
        )}
      </p>
      {usage.windows.map(({ window, used, limit }) => (
        <div key={window} className="grid gap-1">
          <p className="flex justify-between text-sm">
            <span className="text-soft">{windowWords[window]}</span>
            <span className="tabular-nums">
              {used.toLocaleString()}
              {limit !== undefined && <span className="text-soft"> of {limit.toLocaleString()}</span>}
            </span>
          </p>
          {limit !== undefined && (
            <meter
              className="quota h-1.5 w-full"
              min={0}
              max={Math.max(limit, 1)}
              value={used}
              aria-label={`${windowWords[window]}: ${used} of ${limit}`}
            />
          )}
        </div>
      ))}
    </div>
  )
}
