import { jsonl } from './jsonl.js'
import { isBlank, linesOf, parsedLine } from './lines.js'
import type { ResumableSource, SourceItem } from './source.js'

/** A line that was drawn for a trial. */
export interface SampledLine {
  /** Its place among all items of the file, from 0. */
  readonly place: number
  /** Its number, from 1. Blank lines count. */
  readonly line: number
  /** Its offset in the file, in bytes. */
  readonly offset: number
}

/** Lines that were drawn from a file, in its order, and the number of all its items. */
export interface Sample {
  readonly lines: readonly SampledLine[]
  readonly total: number
}

/** Draws lines of a JSONL file at random, each as likely as any other. Reads the file once, in flat memory. */
export async function sampleJsonl(path: string, size: number, random = Math.random): Promise<Sample> {
  const drawn: SampledLine[] = []
  let total = 0
  for await (const { bytes, number: line, start: offset } of linesOf(path)) {
    if (isBlank(bytes.toString('utf8'))) continue
    const place = total++
    // A reservoir: the n-th item takes the place of another with the chance of size ÷ n.
    const slot = place < size ? place : Math.floor(random() * total)
    if (slot < size) drawn[slot] = { place, line, offset }
  }
  return { lines: drawn.sort((a, b) => a.place - b.place), total }
}

/** The items of a JSONL file: first those of a sample, then all others. */
export function sampledFirst<T>(path: string, { lines }: Sample): ResumableSource<T> {
  const places = new Set(lines.map(({ place }) => place))
  return {
    async *readFrom(cursor) {
      const { taken, rest } = cursor === undefined ? { taken: 0, rest: undefined } : placeOf(cursor)
      for (const [index, line] of lines.entries()) {
        if (index >= taken)
          yield { item: (await valueAt(path, line)) as T, cursor: JSON.stringify({ taken: index + 1 }) }
      }
      let place = rest?.place ?? 0
      for await (const step of jsonl<T>(path).readFrom(rest?.cursor)) {
        if (!places.has(place++)) yield new RestItem(step, lines.length, place)
      }
    },
  }
}

/** A source that waits after its first items until it may go on. */
export function pausingAfter<T>(source: ResumableSource<T>, count: number, goOn: Promise<unknown>): ResumableSource<T> {
  return {
    async *readFrom(cursor) {
      let taken = 0
      for await (const step of source.readFrom(cursor)) {
        if (taken++ === count) await goOn
        yield step
      }
    },
  }
}

/** An item after the sample. Its cursor is made only for the last one of a chunk. */
class RestItem<T> implements SourceItem<T> {
  readonly item: T
  readonly #step: SourceItem<T>
  readonly #taken: number
  readonly #place: number

  constructor(step: SourceItem<T>, taken: number, place: number) {
    this.item = step.item
    this.#step = step
    this.#taken = taken
    this.#place = place
  }

  get cursor(): string {
    return JSON.stringify({
      taken: this.#taken,
      rest: { place: this.#place, cursor: this.#step.cursor },
    } satisfies Place)
  }
}

/** Where a run is: how much of the sample it has taken, and how far it is in the rest. */
interface Place {
  readonly taken: number
  readonly rest?: { readonly place: number; readonly cursor: string } | undefined
}

function placeOf(cursor: string): Place {
  // Only what this file has written is read here: a run's cursor belongs to its source.
  return JSON.parse(cursor) as Place
}

async function valueAt(path: string, { line, offset }: SampledLine): Promise<unknown> {
  for await (const found of linesOf(path, { line: line - 1, end: offset }))
    return parsedLine(path, found, 'stop')?.value
  return undefined
}
