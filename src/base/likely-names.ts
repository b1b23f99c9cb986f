// Which name of a list somebody probably meant who wrote another: a slip of the pen, or some of its words (POSTHORN_DATA for POSTHORN_DATA_DIR).

const shownMax = 4

/** The likeliest, in the order of the list; nothing where none is like it. Words have underscores between, and one that all names share says nothing. */
export function likelyNames(written: string, names: readonly string[], shared: string): readonly string[] {
  const mine = wordsIn(written, shared)
  const ranks = names.map((name) => rankOf(mine, wordsIn(name, shared)))
  const best = Math.min(...ranks)
  return best === Infinity ? [] : names.filter((_, at) => ranks[at] === best).slice(0, shownMax)
}

const wordsIn = (name: string, shared: string): readonly string[] =>
  name
    .toUpperCase()
    .split('_')
    .filter((word) => word !== '' && word !== shared)

/** The lower, the likelier: slips, and behind them words that only one of the two has. */
function rankOf(written: readonly string[], name: readonly string[]): number {
  const whole = written.join('')
  const slips = distance(whole, name.join(''))
  if (slips <= Math.min(2, whole.length / 3)) return slips
  const [fewer, more] = written.length <= name.length ? [written, name] : [name, written]
  const likes = fewer.map((word) => Math.min(...more.map((other) => unlike(word, other))))
  return likes.length === 0 ? Infinity : 3 + more.length - fewer.length + Math.max(...likes)
}

function unlike(word: string, other: string): number {
  if (word === other) return 0
  const [short = '', long = ''] = [word, other].toSorted((a, b) => a.length - b.length)
  const isLike = (short.length >= 3 && long.startsWith(short)) || (short.length >= 4 && distance(word, other) === 1)
  return isLike ? 1 : Infinity
}

/** Letters that are missing, too many, wrong, or swapped with their neighbour. */
function distance(one: string, other: string): number {
  let before: number[] = []
  let row = Array.from({ length: other.length + 1 }, (_, at) => at)
  for (let i = 1; i <= one.length; i++) {
    const next = [i]
    for (let j = 1; j <= other.length; j++) {
      const wrong = one[i - 1] === other[j - 1] ? 0 : 1
      let least = Math.min((row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1, (row[j - 1] ?? 0) + wrong)
      const isSwapped = i > 1 && j > 1 && one[i - 1] === other[j - 2] && one[i - 2] === other[j - 1]
      if (isSwapped) least = Math.min(least, (before[j - 2] ?? 0) + 1)
      next.push(least)
    }
    before = row
    row = next
  }
  return row[other.length] ?? 0
}
