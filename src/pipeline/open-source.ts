import { OptionError } from '../policy/index.js'
import { quoted } from '../policy/internal.js'
import type { RunRecord } from '../store/internal.js'
import { SourceChangedError } from './errors.js'
import type { ResumableSource, Source } from './source.js'

/** The next item of a source with its cursor, if it names one; `undefined` at the end. */
export interface Step<T> {
  readonly item: T
  readonly cursor?: string
}

/** A source that is being read. A plain iterable answers at once, without a promise. */
export interface OpenSource<T> {
  next(): Step<T> | undefined | Promise<Step<T> | undefined>
  /** Lets the source go before its end. */
  close(): void
}

/** Refuses what cannot be read. A path is what people try first. */
export function checkSource(source: unknown): void {
  if (typeof source === 'string')
    throw new OptionError('source', `A text is not a source. To read a file, pass jsonl(${JSON.stringify(source)}).`)
  const isSource =
    typeof source === 'object' &&
    source !== null &&
    ('readFrom' in source || Symbol.asyncIterator in source || Symbol.iterator in source)
  if (!isSource)
    throw new OptionError('source', `A source is iterable, async iterable or jsonl(), got ${quoted(source)}.`)
}

/** Opens a source where a run has left it: at its cursor, or after as many items as it has read. */
export function openSource<T>(source: Source<T>, { position, cursor }: Pick<RunRecord, 'position' | 'cursor'>) {
  if ('readFrom' in source) return fromCursor(source, position, cursor)
  if (Symbol.asyncIterator in source) return skipping(fromAsync(source[Symbol.asyncIterator]()), position)
  return skipping(fromSync(source[Symbol.iterator]()), position)
}

function fromCursor<T>(source: ResumableSource<T>, position: number, cursor: string | undefined): OpenSource<T> {
  const iterator = source.readFrom(cursor)[Symbol.asyncIterator]()
  const open: OpenSource<T> = {
    // The step itself, not a copy: its cursor may be computed when it is asked for.
    next: () => Promise.resolve(iterator.next()).then(step => (step.done === true ? undefined : step.value)),
    close: () => close(iterator),
  }
  return cursor === undefined ? skipping(open, position) : open
}

function fromAsync<T>(iterator: AsyncIterator<T>): OpenSource<T> {
  return {
    next: () => Promise.resolve(iterator.next()).then(step => (step.done === true ? undefined : { item: step.value })),
    close: () => close(iterator),
  }
}

function fromSync<T>(iterator: Iterator<T>): OpenSource<T> {
  return {
    next() {
      const step = iterator.next()
      return step.done === true ? undefined : { item: step.value }
    },
    close: () => void iterator.return?.(),
  }
}

/** Skips the items that were read before. */
function skipping<T>(source: OpenSource<T>, count: number): OpenSource<T> {
  if (count === 0) return source
  let isBehind = true
  const skip = async () => {
    for (let n = 0; n < count; n++) {
      if ((await source.next()) === undefined)
        throw new SourceChangedError('The source', `it ends after ${n} items, and the run has read ${count}`)
    }
    isBehind = false
    return source.next()
  }
  return { next: () => (isBehind ? skip() : source.next()), close: () => source.close() }
}

/** A generator that is suspended in an `await` of its own lets go when that ends. Nobody waits for it. */
function close(iterator: AsyncIterator<unknown>): void {
  Promise.resolve(iterator.return?.()).catch(() => {})
}
