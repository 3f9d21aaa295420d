/**
 * The type of a value after its trip through JSON, as far as the type tells. Members that JSON drops or turns into
 * something else become `never`: methods, bigints, objects with a `toJSON` such as dates, members that are always
 * `undefined`, and `undefined` in an array, which becomes `null`.
 */
export type Jsonable<T> = T extends string | number | boolean | null | undefined
  ? T
  : T extends bigint | symbol | ((...args: never[]) => unknown) | { toJSON(...args: never[]): unknown }
    ? never
    : T extends readonly unknown[]
      ? { [Index in keyof T]: Jsonable<IsAny<T[Index]> extends true ? T[Index] : Exclude<T[Index], undefined>> }
      : T extends object
        ? { [Field in keyof T]: JsonMember<T[Field]> }
        : T

type JsonMember<T> = IsAny<T> extends true ? T : [T] extends [undefined] ? never : Jsonable<T>
type IsAny<T> = 0 extends 1 & T ? true : false

/** Whether JSON gives back what it was given. Both ways, since private members of a class are gone afterwards. */
type IsKept<T> = [T] extends [Jsonable<T>] ? ([Jsonable<T>] extends [T] ? true : false) : false

/** A payload that may be `undefined` is kept as `null`. That of a task that takes none may be. */
// biome-ignore lint/suspicious/noConfusingVoidType: the question is whether a payload may be void
type IsKeptPayload<T> = [void] extends [T] ? true : [undefined] extends [T] ? false : IsKept<T>

/** Asks for schemas of a task if JSON changes the type of its payload, or of its result. */
export type SchemasUnlessJson<Payload, Result> = (IsKeptPayload<Payload> extends true
  ? unknown
  : { readonly payload: SchemaFromJsonTo<Payload> }) &
  (IsKept<Result> extends true ? unknown : { readonly result: SchemaFromJsonTo<Result> })

/** The type of a value that was kept as JSON: the same, or one that says so if JSON changes it. */
export type KeptAsJson<T> = IsKept<T> extends true ? T : ChangedByJson<T>

/** JSON changes this type, so whoever reads it gets another: return one that JSON keeps, such as text for a date. */
export interface ChangedByJson<Type> {
  readonly 'a type that JSON changes': Type
}

/**
 * JSON changes this type. Pass a schema that takes a type that JSON keeps, such as text for a date, and makes this type of
 * it.
 */
export interface SchemaFromJsonTo<Type> {
  readonly 'a schema whose input JSON keeps as it is': Type & never
}
