// A look at what has come, before saying that nothing came. Timers run before sockets: a process that stood still (stopped, paused with its container, out
// of memory) wakes up with its time limits over, while the answers lie unread in the kernel.

/** Resolves after the event loop has looked at every socket once more. */
export function afterPoll(): Promise<void> {
  // The first setImmediate may come from within the current poll; between it and the second lies a whole one.
  return new Promise((resolve) => {
    setImmediate(() => setImmediate(resolve))
  })
}
