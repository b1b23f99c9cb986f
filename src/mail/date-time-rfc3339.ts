// Times as programs write them (RFC 3339).

/**
 * RFC 3339 5.6, strictly: days that exist, a zone, milliseconds at the finest. A leap second counts as the second after
 * it.
 */
export function parseDateTime(text: string): number | undefined {
  const match = /^(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(\.\d{1,9})?(?:[Zz]|([+-])(\d\d):(\d\d))$/.exec(text)
  if (match === null) return undefined
  const [year, month, day, hour, minute, second] = match.slice(1, 7).map(Number) as [
    number,
    number,
    number,
    number,
    number,
    number,
  ]
  const [zoneHour, zoneMinute] = [Number(match[9] ?? 0), Number(match[10] ?? 0)]
  if (hour > 23 || minute > 59 || second > 60 || zoneHour > 23 || zoneMinute > 59) return undefined
  const midnight = new Date(Date.UTC(year, month - 1, day))
  if (year < 1970 || midnight.getUTCMonth() !== month - 1 || midnight.getUTCDate() !== day) return undefined
  const zone = (match[8] === '-' ? -1 : 1) * (zoneHour * 60 + zoneMinute)
  const fraction = Math.trunc(Number(match[7] ?? 0) * 1000)
  const time = midnight.getTime() + ((hour * 60 + minute - zone) * 60 + second) * 1000 + fraction
  return time < yearsEnd ? time : undefined
}

/** A zone can lead into a year that RFC 3339 cannot write. */
const yearsEnd = Date.UTC(10_000, 0)
