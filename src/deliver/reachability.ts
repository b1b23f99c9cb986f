// Addresses that did not answer lately are tried after those that did, so that a host without working IPv6 costs its time limit once in a
// while and not for every mail. So are those that took the connection and did not greet: half of a host that has died. When several IPv6 (or
// IPv4) addresses in a row were out of reach and none was in reach, it is the family, ours or theirs, and all of it goes behind. Where there
// are more than may be tried, both families stay in.
import { isIP } from 'node:net'
import { BoundedMap } from '../base/bounded-map.ts'
import { limits } from '../config.ts'

export interface Reachability {
  /** `silent`: the connection was made, and nothing came over it. */
  note(address: string, reached: boolean | 'silent'): void
  /** As many of them as one attempt may try, those that are known to be out of reach behind the others. */
  inOrder<T extends { readonly address: string }>(targets: readonly T[]): readonly T[]
}

const familyFailuresMax = 3

export function makeReachability(now: () => number = () => performance.now()): Reachability {
  const failedUntil = new BoundedMap<string, number>(limits.unreachableMost)
  /** Failures in a row, by family, of different addresses. */
  const inARow = new Map<number, Set<string>>()
  let familyUntil = new Map<number, number>()

  const note = (address: string, reached: boolean | 'silent') => {
    const family = isIP(address)
    if (reached !== false) {
      inARow.delete(family)
      familyUntil.delete(family)
      failedUntil.delete(address)
      if (reached === true) return
    }
    const until = now() + limits.unreachableMs
    failedUntil.set(address, until)
    if (reached === 'silent') return
    const row = inARow.get(family) ?? new Set()
    inARow.set(family, row.add(address))
    if (row.size >= familyFailuresMax) {
      familyUntil = new Map(familyUntil).set(family, until)
      inARow.delete(family)
    }
  }

  const isOut = (address: string): boolean => {
    const at = now()
    return at < (failedUntil.get(address) ?? 0) || at < (familyUntil.get(isIP(address)) ?? 0)
  }

  const inOrder = <T extends { readonly address: string }>(targets: readonly T[]): readonly T[] => {
    if (failedUntil.size === 0 && familyUntil.size === 0) return someOf(targets, limits.addressesPerAttemptMax)
    const out = targets.filter(({ address }) => isOut(address))
    const inOrder = out.length === 0 ? targets : [...targets.filter((target) => !out.includes(target)), ...out]
    return someOf(inOrder, limits.addressesPerAttemptMax)
  }
  return { note, inOrder }
}

/** The first ones, and one of each family among them where there is any: a machine may have a way to one family alone. */
export function someOf<T extends { readonly address: string }>(all: readonly T[], most: number): readonly T[] {
  if (all.length <= most) return all
  const first = all.slice(0, most)
  const family = isIP(first[0]?.address ?? '')
  const isOther = ({ address }: T) => isIP(address) !== family
  const other = first.some(isOther) ? undefined : all.slice(most).find(isOther)
  return other === undefined ? first : [...first.slice(0, -1), other]
}
