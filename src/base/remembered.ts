// Answers that are kept for a while, up to a number, and up to a size where strangers decide how large they are: askers at the same time share
// one question, and the one that was asked longest ago makes room.

export interface Keeping<Answer> {
  /** How long an answer lasts; 0: it is not kept. */
  readonly keepMs: (answer: Answer) => number
  readonly most: number
  /** Of all that are kept, roughly. */
  readonly bytesMost?: number
  readonly now?: () => number
  /** Who asks. Only those of one owner share a question that is under way, where owners wait by turns: else one would wait in the turn of another. */
  readonly owner?: () => string
}

export function remembered<Answer>(
  find: (name: string) => Promise<Answer>,
  { keepMs, most, bytesMost = Infinity, now = () => performance.now(), owner = () => '' }: Keeping<Answer>,
): (name: string) => Promise<Answer> {
  const kept = new Map<string, { readonly until: number; readonly answer: Promise<Answer>; readonly bytes: number }>()
  let keptBytes = 0
  const asking = new Map<string, Promise<Answer>>()

  const forget = (name: string): void => {
    keptBytes -= kept.get(name)?.bytes ?? 0
    kept.delete(name)
  }

  const ask = async (name: string, place: string): Promise<Answer> => {
    try {
      const answer = await find(name)
      const ms = keepMs(answer)
      forget(name)
      const bytes = bytesMost === Infinity ? 0 : roughBytes(answer)
      if (ms > 0 && bytes <= bytesMost) {
        for (const oldest of kept.keys()) {
          if (kept.size < most && keptBytes + bytes <= bytesMost) break
          forget(oldest)
        }
        kept.set(name, { until: now() + ms, answer: Promise.resolve(answer), bytes })
        keptBytes += bytes
      }
      return answer
    } finally {
      asking.delete(place)
    }
  }

  return (name) => {
    const known = kept.get(name)
    if (known !== undefined && now() < known.until) return known.answer
    const place = `${owner()} ${name}`
    const underWay = asking.get(place)
    if (underWay !== undefined) return underWay
    const answer = ask(name, place)
    asking.set(place, answer)
    return answer
  }
}

/** What plain data takes in memory, about. */
function roughBytes(value: unknown): number {
  if (typeof value === 'string') return 32 + value.length
  if (typeof value !== 'object' || value === null) return 8
  if (ArrayBuffer.isView(value)) return 128 + value.byteLength
  return Object.values(value).reduce<number>((sum, each) => sum + roughBytes(each), 128)
}
