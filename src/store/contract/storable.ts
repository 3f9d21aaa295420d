/**
 * Refuses a function whose result no store can keep, since JSON has no form for it: the whole result of a query, a `Map`,
 * a bigint. `unknown` otherwise, so that `T & Storable<T>` is `T`.
 */
export type Storable<T> = 0 extends 1 & Awaited<T> ? unknown : Awaited<T> extends Unstorable ? ReturnPlainData : unknown

type Unstorable =
  | bigint
  | symbol
  | ((...args: never[]) => unknown)
  | Error
  | ReadonlyMap<unknown, unknown>
  | ReadonlySet<unknown>
  | QueryResult

/** The result of a query as `pg` gives it, with the parsers of its columns. */
interface QueryResult {
  readonly rows: readonly unknown[]
  readonly fields: readonly unknown[]
  readonly command: string
}

/** Return data that JSON can hold, such as the rows of a query, or nothing. */
interface ReturnPlainData {
  readonly 'a result that JSON can hold, such as the rows of a query, or nothing': never
}
