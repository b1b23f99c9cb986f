// What is shown this once, in a dialog, with the way out of it: it is not taken away by a session that ends meanwhile (session.tsx), and says so. What
// it guards exists already, and nobody could read it again.
import { useBlocker } from '@tanstack/react-router'
import { useEffect, type ReactNode } from 'react'
import { makeFlag } from '../flag.ts'
import { Button } from './button.tsx'
import { DialogActions } from './dialog.tsx'

/** Whether something of the kind stands in the page. */
export const shownOnce = makeFlag()
/** Whether the session has ended behind it. */
export const endedBehind = makeFlag()

const always = () => true

export function ShownOnce({
  action = 'I have it',
  close,
  children,
}: {
  readonly action?: string
  readonly close: () => void
  readonly children: ReactNode
}) {
  useEffect(() => {
    shownOnce.set(true)
    return () => shownOnce.set(false)
  }, [])
  // Who goes back with it before them, by a gesture perhaps, would never see it again.
  useBlocker({ shouldBlockFn: always, enableBeforeUnload: false })
  const hasEnded = endedBehind.use()
  return (
    <>
      {children}
      <div role="status">
        {hasEnded && (
          <p className="rounded-lg bg-warn-wash px-3 py-2 text-sm text-warn">
            Your session has ended. Copy this now; what comes then is the sign-in.
          </p>
        )}
      </div>
      <DialogActions>
        <Button look="primary" onClick={close}>
          {action}
        </Button>
      </DialogActions>
    </>
  )
}
