/**
 * What is in hand, of things that come and go by the thousand. Places in an array, since a Set that so many pass through
 * keeps the garbage collector busier than they do themselves.
 */
export class InHand<T> {
  #places: (T | undefined)[] = []
  #free: number[] = []

  get size(): number {
    return this.#places.length - this.#free.length
  }

  /** Returns its place, for `drop`. */
  take(item: T): number {
    const place = this.#free.pop() ?? this.#places.length
    this.#places[place] = item
    return place
  }

  /** False if it is not there any more. */
  drop(place: number, item: T): boolean {
    if (this.#places[place] !== item) return false
    this.#places[place] = undefined
    this.#free.push(place)
    return true
  }

  /** Drops all of them, and returns what they were. */
  dropAll(): T[] {
    const all = [...this]
    this.#places = []
    this.#free = []
    return all
  }

  *[Symbol.iterator](): Generator<T> {
    for (const item of this.#places) if (item !== undefined) yield item
  }
}
