// Whatever deletes or changes many rows does it in bites, each of them its own transaction, so that nobody waits long for one.

/** Bites of up to `most` rows, until one finds fewer; answers how many there were in all. */
export async function inBites(most: number, bite: () => Promise<number>): Promise<number> {
  for (let all = 0; ;) {
    const many = await bite()
    all += many
    if (many < most) return all
  }
}
