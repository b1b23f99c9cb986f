// What tests start ends with them, also where they are killed and no hook runs (a Ctrl-C that only vitest's main process gets, a runner that is out of time): a node
// that lived on would have the processor and the ports of whoever comes next.

/** To be spawned so, a program is killed by the kernel when the process that has started it is gone. As another user where that is said. */
export const withUs = (
  program: string,
  args: readonly string[],
  as: readonly string[] = [],
): [program: string, args: string[]] => ['/usr/bin/setpriv', ['--pdeathsig', 'KILL', ...as, program, ...args]]

/**
 * The same for one whose processes leave it, as a mail server's do: in a namespace of their own, which root can make, none outlives the first. That is a shell which waits: who
 * gives up rights is no longer told of such a death. It is ended by SIGKILL; any other signal reaches only whoever waits for it.
 */
export const wholeWithUs = (program: string, args: readonly string[]): [program: string, args: string[]] =>
  withUs('/usr/bin/unshare', [
    '--pid',
    '--fork',
    '--kill-child',
    '/bin/sh',
    '-c',
    '"$@"; exit $?',
    'sh',
    program,
    ...args,
  ])
