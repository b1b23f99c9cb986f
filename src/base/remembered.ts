// Answers that are kept for a while, up to a number: askers at the same time share one question, and the one that was asked longest ago
// makes room.

export interface Keeping<Answer> {
  /** How long an answer lasts; 0: it is not kept. */
  readonly keepMs: (answer: Answer) => number
  readonly most: number
  readonly now?: () => number
}

export function remembered<Answer>(
  find: (name: string) => Promise<Answer>,
  { keepMs, most, now = () => performance.now() }: Keeping<Answer>,
): (name: string) => Promise<Answer> {
  const kept = new Map<string, { readonly until: number; readonly answer: Promise<Answer> }>()
  const asking = new Map<string, Promise<Answer>>()

  const ask = async (name: string): Promise<Answer> => {
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
      asking.delete(name)
    }
  }

  return (name) => {
    const known = kept.get(name)
    if (known !== undefined && now() < known.until) return known.answer
    const underWay = asking.get(name)
    if (underWay !== undefined) return underWay
    const answer = ask(name)
    asking.set(name, answer)
    return answer
  }
}
