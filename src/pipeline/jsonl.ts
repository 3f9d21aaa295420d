import type { ResumableSource } from './source.js'

/** Options of `jsonl()`. */
export interface JsonlOptions {
  /** What to do with a line that is not JSON. Default: the source stops there, with an error that names file and line. */
  readonly onBadLine?: 'stop' | 'skip'
}

/**
 * The lines of a file, each a JSON value. A resumed run continues at the byte after the last line that it took, after
 * checking that this line is still the same.
 */
export function jsonl<T = unknown>(path: string, options: JsonlOptions = {}): ResumableSource<T> {
  throw new Error(`Not ready yet: ${path} ${options.onBadLine}`)
}
