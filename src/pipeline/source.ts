/** Where the items of a run come from. */
export type Source<T> = Iterable<T> | AsyncIterable<T> | ResumableSource<T>

/** A source that can be continued at a place that it named itself, such as `jsonl()`. */
export interface ResumableSource<T> {
  /** Its items after the place that a cursor names; from the start without one. Throws if it has changed since then. */
  readFrom(cursor: string | undefined): AsyncIterable<SourceItem<T>>
}

/** An item, with the place in the source that follows it. */
export interface SourceItem<T> {
  /** The item. */
  readonly item: T
  /** Names the place after it, for `readFrom`. */
  readonly cursor: string
}
