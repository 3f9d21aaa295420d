/**
 * A priority queue: the first item is found at once, adding and taking cost the logarithm of its size. An item that is
 * no longer wanted stays until it comes to the front, and is dropped there.
 */
export class MemoryHeap<T> {
  readonly #items: T[] = []
  readonly #isBefore: (a: T, b: T) => boolean
  readonly #isWanted: (item: T) => boolean

  constructor(isBefore: (a: T, b: T) => boolean, isWanted: (item: T) => boolean) {
    this.#isBefore = isBefore
    this.#isWanted = isWanted
  }

  /** The first item that is wanted. */
  peek(): T | undefined {
    for (let first = this.#items[0]; first !== undefined; first = this.#items[0]) {
      if (this.#isWanted(first)) return first
      this.#removeFirst()
    }
    return undefined
  }

  /** Takes the first item that is wanted. */
  pop(): T | undefined {
    const first = this.peek()
    if (first !== undefined) this.#removeFirst()
    return first
  }

  push(item: T): void {
    let index = this.#items.length
    while (index > 0) {
      const parent = (index - 1) >> 1
      const above = this.#items[parent] as T
      if (!this.#isBefore(item, above)) break
      this.#items[index] = above
      index = parent
    }
    this.#items[index] = item
  }

  #removeFirst(): void {
    const last = this.#items.pop()
    const size = this.#items.length
    if (last === undefined || size === 0) return
    let index = 0
    for (let child = 1; child < size; child = 2 * index + 1) {
      if (child + 1 < size && this.#isBefore(this.#items[child + 1] as T, this.#items[child] as T)) child++
      const below = this.#items[child] as T
      if (!this.#isBefore(below, last)) break
      this.#items[index] = below
      index = child
    }
    this.#items[index] = last
  }
}
