/** The value of a name that users choose, such as that of a stage: `constructor` is no value unless somebody set it. */
export function ownValue<T>(values: Readonly<Record<string, T>> | undefined, name: string): T | undefined {
  return values !== undefined && Object.hasOwn(values, name) ? values[name] : undefined
}
