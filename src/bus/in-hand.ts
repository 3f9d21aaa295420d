/**
 * A collection for items that come and go by the thousand, such as unsettled deliveries. It reuses places in an array:
 * a Set with that much turnover costs more garbage collection than the items themselves.
 */
export class InHand<T> {
  #places: (T | undefined)[] = []
  #free: number[] = []

  get size(): number {
    return this.#places.length - this.#free.length
  }

  /** Adds an item and returns its place, for `drop`. */
  take(item: T): number {
    const place = this.#free.pop() ?? this.#places.length
    this.#places[place] = item
    return place
  }

  /** Removes an item. Returns false if it was removed before. */
  drop(place: number, item: T): boolean {
    if (this.#places[place] !== item) return false
    this.#places[place] = undefined
    this.#free.push(place)
    return true
  }

  /** Removes and returns all items. */
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
