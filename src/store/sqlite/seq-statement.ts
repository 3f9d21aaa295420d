import type { Preparer, Statement } from './driver.js'

/** From this number on, tasks that follow each other cost less as a range than in a list. */
const MIN_RANGE = 16

/**
 * An update of tasks by their `seq`. Those that a worker claims together were mostly enqueued one after another: for them
 * it is a range, which costs a sixth less than a list.
 */
export class SeqStatement {
  readonly #range: Statement<unknown[], unknown>
  readonly #list: Statement<unknown[], unknown>

  constructor(db: Preparer, update: string) {
    this.#range = db.prepare(/* sql */ `${update} WHERE seq BETWEEN ? AND ?`)
    this.#list = db.prepare(/* sql */ `${update} WHERE seq IN (SELECT value FROM json_each(?))`)
  }

  /** Updates the tasks with these numbers, all of which must be different and exist. */
  run(seqs: readonly number[], ...values: readonly (string | number | null)[]): void {
    const scattered: number[] = []
    for (let first = 0; first < seqs.length; ) {
      const end = endOfRange(seqs, first)
      if (end - first >= MIN_RANGE) this.#range.run(...values, seqs[first], seqs[end - 1])
      else for (let n = first; n < end; n++) scattered.push(seqs[n] as number)
      first = end
    }
    if (scattered.length > 0) this.#list.run(...values, JSON.stringify(scattered))
  }
}

/** The position behind the last of the numbers that follow each other from a position on. */
function endOfRange(seqs: readonly number[], first: number): number {
  let end = first + 1
  while (end < seqs.length && seqs[end] === (seqs[end - 1] as number) + 1) end++
  return end
}
