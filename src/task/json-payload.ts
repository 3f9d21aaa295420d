/**
 * The type of a value after its trip through JSON, for as far as it can be told from the type. Methods, bigints and objects
 * with a `toJSON`, such as dates, become `never`: what is enqueued is not what the handler would get.
 */
export type Jsonable<T> = T extends string | number | boolean | null | undefined
  ? T
  : T extends bigint | symbol | ((...args: never[]) => unknown) | { toJSON(...args: never[]): unknown }
    ? never
    : T extends object
      ? { [Field in keyof T]: Jsonable<T[Field]> }
      : T

/**
 * Asks for a schema if JSON changes the type of the payload. Its input is what is enqueued, so JSON has to keep that as it
 * is: text for a date, say.
 */
export type SchemaUnlessJson<Input> = [Input] extends [Jsonable<Input>] ? unknown : { readonly payload: SchemaFromJson }

/** JSON changes the type of this payload. Give a schema that takes what JSON keeps, and makes this type of it. */
export interface SchemaFromJson {
  readonly 'a schema whose input JSON keeps as it is': never
}
