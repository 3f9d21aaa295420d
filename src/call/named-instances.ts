import { canonicalJson, OptionError } from '../policy/index.js'

/**
 * Makes one instance per name, for state that calls share wherever they are written. Naming it again gives the same
 * one; naming it with other options is an error, since only one of the two can hold.
 */
export function namedInstances<T, Options>(
  what: string,
  make: (name: string, options?: Options) => T,
): (name: string, options?: Options) => T {
  const instances = new Map<string, { readonly instance: T; readonly options: string }>()
  return (name, options) => {
    const known = instances.get(name)
    if (known === undefined) {
      const instance = make(name, options)
      instances.set(name, { instance, options: canonicalJson(options ?? {}) })
      return instance
    }
    if (options !== undefined && canonicalJson(options) !== known.options) {
      throw new OptionError(
        'name',
        `The ${what} '${name}' exists already, with the options ${known.options}. Give it those, none, or another name.`,
      )
    }
    return known.instance
  }
}
