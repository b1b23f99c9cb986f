// Stand-ins at the edge of the delivery loop, for tests that are about something else or that move them by hand: a gate, and a journal that
// keeps its lines in memory.
import type { Ending } from '../store/outbound.ts'
import type { Gate } from './fence.ts'
import type { Journal } from './journal.ts'

export interface HandGate extends Gate {
  open(on: boolean): void
}

export function openGate(): HandGate {
  let isOpen = true
  const listeners: (() => void)[] = []
  return {
    isOpen: () => isOpen,
    knowsDatabase: () => true,
    onChange: (listener) => void listeners.push(listener),
    open: (on) => {
      isOpen = on
      for (const listener of listeners) listener()
    },
  }
}

export interface MemoryJournal extends Journal {
  readonly kept: Ending[]
  readonly settled: string[]
}

export function memoryJournal(): MemoryJournal {
  const kept: Ending[] = []
  const settled: string[] = []
  return {
    kept,
    settled,
    keep: (ending) => Promise.resolve(void kept.push(ending)),
    settle: ({ id }) => void settled.push(id),
    inherited: [],
    get size() {
      return kept.length - settled.length
    },
    close: () => Promise.resolve(),
  }
}
