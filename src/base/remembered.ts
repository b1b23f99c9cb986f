// Answers that are kept for a while, up to a number: askers at the same time share one question, and the answer that was asked for longest ago
// makes room.

export interface Keeping<Answer> {
  /** How long an answer lasts; 0: it is not kept. */
  readonly keepMs: (answer: Answer) => number
  readonly most: number
  readonly now?: () => number
  /** Who asks. Only those of one owner share a question that is under way, where owners wait by turns: else one would wait in the turn of another. */
  readonly owner?: () => string
}

export function remembered<Answer>(
  find: (name: string) => Promise<Answer>,
  { keepMs, most, now = () => performance.now(), owner = () => '' }: Keeping<Answer>,
): (name: string) => Promise<Answer> {
  const kept = new Map<string, { readonly until: number; readonly answer: Promise<Answer> }>()
  const asking = new Map<string, Promise<Answer>>()

  const ask = async (name: string, place: string): Promise<Answer> => {
    try {
      const answer = await find(name)
      const ms = keepMs(answer)
      kept.delete(name)
      if (ms > 0) {
        const oldest = kept.size >= most ? kept.keys().next().value : undefined
        if (oldest !== undefined) kept.delete(oldest)
        kept.set(name, { until: now() + ms, answer: Promise.resolve(answer) })
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
