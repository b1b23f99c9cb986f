// Where PostgreSQL shares what grows while it runs: in /dev/shm, or where that is missing (a bare chroot), small, not ours to write or not ours to keep, in files
// of the cluster. It is asked at each start: initdb looks once, and only whether there is any, and a cluster moves from one machine to another.
import { existsSync, statfsSync } from 'node:fs'
import { runsAs, type Account } from './account.ts'

/** Ours takes 100 KB, and its counts of tables grow by 1 MB at a time. Containers have 64 MB, if nobody says otherwise. */
const leastBytes = 8 * 1024 * 1024
const folder = '/dev/shm'

/** A setting for initdb and for the server. */
export function sharedMemory(runAs: Account | undefined): string {
  const there = process.platform !== 'linux' || (hasRoom() && isKept(runAs) && runsAs(runAs, 'test -w "$1"', folder))
  return `dynamic_shared_memory_type=${there ? 'posix' : 'mmap'}`
}

function hasRoom(): boolean {
  try {
    const { bavail, bsize } = statfsSync(folder)
    return bavail * bsize >= leastBytes
  } catch {
    return false // there is none
  }
}

/**
 * When a person has logged out, systemd takes away what is theirs there (RemoveIPC=, logind.conf(5)), also from under a service that goes on: no connection
 * would be let in any more. What belongs to users of the system stays.
 */
function isKept(runAs: Account | undefined): boolean {
  const uid = runAs?.uid ?? process.getuid?.() ?? 0
  return uid < firstPerson || !existsSync('/run/systemd/system')
}

/** As systemd counts them (SYS_UID_MAX, login.defs(5)). */
const firstPerson = 1000
