// A question or a form before the page: focus stays inside and begins in the first field, Escape closes, and the page behind is out of reach. A
// press beside it does nothing: what was typed, or a secret that is shown this once, would be gone. While it works it does not close at all.
import { Dialog as Base } from '@base-ui/react/dialog'
import { X } from 'lucide-react'
import { useEffect, useRef, type ReactElement, type ReactNode, type RefObject } from 'react'
import { useForgetting } from '../api.ts'
import { Button } from './button.tsx'
import { Form, FormMistake } from './field.tsx'

export function Dialog({
  title,
  description,
  trigger,
  open,
  onOpenChange,
  children,
}: {
  readonly title: string
  readonly description?: ReactNode
  readonly trigger?: ReactElement
  readonly open: boolean
  readonly onOpenChange: (open: boolean) => void
  readonly children: ReactNode
}) {
  const popup = useRef<HTMLDivElement>(null)
  const heardFocus = useFocusKeptIn(popup)
  // Closing would not call off what is under way, and its answer may be shown this once.
  const change = (to: boolean) => {
    if (to || popup.current?.querySelector('[aria-busy=true]') == null) onOpenChange(to)
  }
  return (
    <Base.Root open={open} onOpenChange={change} disablePointerDismissal>
      {trigger !== undefined && <Base.Trigger render={trigger} />}
      <Base.Portal>
        <Base.Backdrop className="fixed inset-0 z-40 bg-black/45" />
        <Base.Popup
          ref={popup}
          onFocus={heardFocus}
          // A finger does not want the keyboard before it asks for it.
          initialFocus={(by) =>
            (by !== 'touch' && popup.current?.querySelector<HTMLElement>('input:not([hidden]), select, textarea')) ||
            true
          }
          className="fixed top-1/2 left-1/2 z-50 grid max-h-[calc(100dvh-2rem)] w-[min(32rem,calc(100vw-2rem))] -translate-x-1/2 -translate-y-1/2 gap-4 overflow-y-auto rounded-xl border border-line bg-card p-5 wrap-anywhere shadow-xl"
        >
          <div className="flex items-start justify-between gap-3">
            <div className="grid gap-1">
              <Base.Title className="text-lg font-semibold">{title}</Base.Title>
              {description !== undefined && (
                <Base.Description className="text-sm text-soft">{description}</Base.Description>
              )}
            </div>
            <Base.Close
              aria-label="Close"
              className="inline-flex size-8 shrink-0 items-center justify-center rounded-md text-soft hover:bg-sunken hover:text-ink"
            >
              <X aria-hidden className="size-4" />
            </Base.Close>
          </div>
          {children}
        </Base.Popup>
      </Base.Portal>
    </Base.Root>
  )
}

/**
 * What was filled in gives way to its answer, a secret perhaps, and the focus would go with it, behind the dialog, and say nothing. The dialog
 * itself takes it: it is read out from its new title on, and the next key goes on inside.
 */
function useFocusKeptIn(popup: RefObject<HTMLElement | null>): (event: { readonly target: Element }) => void {
  const last = useRef<Element>(null)
  useEffect(() => {
    if (last.current === null || last.current.isConnected || document.activeElement !== document.body) return
    last.current = null
    popup.current?.focus()
  })
  return ({ target }) => {
    last.current = target
  }
}

/** Closes the dialog that it stands in, but not while that works. */
export function Cancel({ children }: { readonly children: ReactNode }) {
  return <Base.Close render={<Button />}>{children}</Base.Close>
}

/** The row of buttons at the end of a dialog. */
export function DialogActions({ children }: { readonly children: ReactNode }) {
  return <div className="flex flex-wrap justify-end gap-2 pt-1">{children}</div>
}

/** As `useChange` gives it. */
interface Change {
  readonly isPending: boolean
  readonly error: Error | null
  readonly reset: () => void
}

/** What is filled in in a dialog for one change, and what was said to it. */
export function DialogForm({
  action,
  look = 'primary',
  by,
  fields,
  cancel = 'Cancel',
  onSubmit,
  children,
}: {
  readonly action: string
  readonly look?: 'primary' | 'danger'
  readonly by: Pick<Change, 'isPending' | 'error'>
  /** Those that say themselves what is wrong with them. */
  readonly fields?: readonly string[]
  readonly cancel?: string
  readonly onSubmit: (form: FormData) => void
  readonly children: ReactNode
}) {
  return (
    <Form onSubmit={onSubmit}>
      {children}
      <FormMistake error={by.error} {...(fields && { fields })} />
      <DialogActions>
        <Cancel>{cancel}</Cancel>
        <Button look={look} type="submit" busy={by.isPending}>
          {action}
        </Button>
      </DialogActions>
    </Form>
  )
}

/** Asks before something that cannot be taken back. */
export function Confirm<Of>({
  title,
  children,
  action,
  of,
  close,
  by,
  onConfirm,
}: {
  readonly title: string
  readonly children: ReactNode
  readonly action: string
  /** What it would be done to; undefined while nobody asks. */
  readonly of: Of | undefined
  readonly close: () => void
  /** The change that does it. */
  readonly by: Change
  readonly onConfirm: (of: Of) => void
}) {
  useForgetting(of !== undefined, by)
  return (
    <Dialog title={title} open={of !== undefined} onOpenChange={close}>
      <div className="text-sm text-soft">{children}</div>
      <FormMistake error={by.error} />
      <DialogActions>
        <Cancel>Cancel</Cancel>
        <Button look="danger" busy={by.isPending} onClick={() => of !== undefined && onConfirm(of)}>
          {action}
        </Button>
      </DialogActions>
    </Dialog>
  )
}
