/**
 * What is in hand, of things that come and go by the thousand. Places in an array, since a Set that so many pass through
 * keeps the garbage collector busier than they do themselves.
 */
export class InHand<T> {
  readonly #places: (T | undefined)[] = []
  readonly #free: number[] = []

  /** Returns its place, for `drop`. */
  take(item: T): number {
    const place = this.#free.pop() ?? this.#places.length
    this.#places[place] = item
    return place
  }

  drop(place: number): void {
    this.#places[place] = undefined
    this.#free.push(place)
  }

  *[Symbol.iterator](): Generator<T> {
    for (const item of this.#places) if (item !== undefined) yield item
  }
}
