// A machine whose kernel has no IPv6 (`ipv6.disable=1`), for one program and what it starts: a filter of its system calls (seccomp(2)) makes no socket
// of that family, and the program is told what such a kernel tells.
const filter = `
import ctypes, os, platform, struct, sys
socket = {'x86_64': 41, 'aarch64': 198}[platform.machine()]
load, equal, answer = 0x20, 0x15, 0x06
allowed, eafnosupport = 0x7fff0000, 0x00050000 | 97
lines = [(load, 0, 0, 0), (equal, 0, 3, socket), (load, 0, 0, 16), (equal, 0, 1, 10), (answer, 0, 0, eafnosupport), (answer, 0, 0, allowed)]
code = ctypes.create_string_buffer(b''.join(struct.pack('HBBI', *line) for line in lines))
program = struct.pack('HxxxxxxP', len(lines), ctypes.addressof(code))
libc = ctypes.CDLL(None, use_errno=True)
if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, program, 0, 0):
    sys.exit(os.strerror(ctypes.get_errno()))
os.execvp(sys.argv[1], sys.argv[1:])
`

export const withoutIpv6 = (program: string, ...args: readonly string[]): [string, ...string[]] => [
  'python3',
  '-c',
  filter,
  program,
  ...args,
]
