// Whoever works by keys stays where they were. A button that was pressed may go away with what it has done (a key that is revoked, a row that is
// removed); browsers then begin again at the top of the page. Here the list around it takes the focus, or else the heading.
import { useEffect } from 'react'

export function useKeptFocus(): void {
  useEffect(() => {
    let last: HTMLElement | undefined
    let around: readonly HTMLElement[] = []
    const hear = ({ target }: FocusEvent) => {
      if (!(target instanceof HTMLElement) || target.closest('main') === null) return
      last = target
      around = [...document.querySelectorAll<HTMLElement>('main [role=group][tabindex]')].filter((box) =>
        box.contains(target),
      )
    }
    const look = () => {
      // A dialog that closes gives the focus back by itself, to what is still there.
      if (last === undefined || last.isConnected || document.activeElement !== document.body) return
      last = undefined
      const to = around.find((box) => box.isConnected) ?? document.querySelector<HTMLElement>('main h1')
      to?.focus({ preventScroll: true })
    }
    const watch = new MutationObserver(look)
    watch.observe(document.body, { childList: true, subtree: true })
    document.addEventListener('focusin', hear)
    return () => {
      watch.disconnect()
      document.removeEventListener('focusin', hear)
    }
  }, [])
}
