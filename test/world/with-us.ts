// What tests start ends with them, also where they are killed and no hook runs (a Ctrl-C that only vitest's main process gets, a runner that is out of time): a node
// that lived on would have the processor and the ports of whoever comes next.

/** To be spawned so, a program is killed by the kernel when the process that has started it is gone. As another user where that is said. */
export const withUs = (
  program: string,
  args: readonly string[],
  as: readonly string[] = [],
): [program: string, args: string[]] => ['/usr/bin/setpriv', ['--pdeathsig', 'KILL', ...as, program, ...args]]
