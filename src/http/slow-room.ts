// The memory of small bodies that come slowly, counted by what has come so far: what is only declared costs nothing. Nobody waits here, for a body that
// waits still holds what it has. Beyond the bound, the largest body of the owner who holds most gives way: so whoever holds little is never sent away,
// however many others hold theirs back (decision 0075).

/** A body that comes slowly, or an answer that is read slowly (unread-answers.ts). */
export interface SlowTransfer {
  /** A workspace, a person, or the address of somebody whom nobody knows. */
  readonly owner: string
  /** Hears that it holds nothing any more, once. */
  readonly giveWay: () => void
}

interface Owner {
  bytes: number
  readonly bodies: Map<SlowTransfer, number>
}

export class SlowRoom {
  readonly #bytesMax: number
  readonly #owners = new Map<string, Owner>()
  #heldBytes = 0

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax
  }

  get heldBytes(): number {
    return this.#heldBytes
  }

  /** Notes how much a body holds by now; 0 for one that has ended. */
  hold(body: SlowTransfer, bytes: number): void {
    this.#set(body, bytes)
    while (this.#heldBytes > this.#bytesMax) {
      const owner = most(this.#owners.values(), (each) => each.bytes)
      const [largest] = most(owner.bodies, ([, held]) => held)
      this.#set(largest, 0)
      largest.giveWay()
    }
  }

  #set(body: SlowTransfer, bytes: number): void {
    const owner = this.#owners.get(body.owner) ?? { bytes: 0, bodies: new Map<SlowTransfer, number>() }
    const change = bytes - (owner.bodies.get(body) ?? 0)
    owner.bytes += change
    this.#heldBytes += change
    if (bytes === 0) owner.bodies.delete(body)
    else owner.bodies.set(body, bytes)
    if (owner.bodies.size === 0) this.#owners.delete(body.owner)
    else this.#owners.set(body.owner, owner)
  }
}

/** Of equals the first, which has been there for longest. */
function most<Each>(all: Iterable<Each>, bytesOf: (each: Each) => number): Each {
  return [...all].reduce((one, other) => (bytesOf(other) > bytesOf(one) ? other : one))
}
