import { OptionError } from '../policy/index.js'

/**
 * Parses the URL of a broker. The error for an unreadable URL never repeats it, since it may hold a
 * password; Node's own error does.
 */
export function brokerUrl(text: string, option: string, schemes: readonly string[]): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (url === undefined || !isDecodable(url.username + url.password)) {
    throw new OptionError(
      option,
      `'${option}' is not a valid URL. Percent-encode special characters in its password, such as '@' as '%40'.`,
    )
  }
  if (!schemes.includes(url.protocol)) {
    const expected = schemes.map(scheme => `${scheme}//`).join(' or ')
    throw new OptionError(option, `'${option}' must begin with ${expected}, got '${url.protocol}'.`)
  }
  if (url.hostname === '' || url.hostname.includes(',')) {
    throw new OptionError(option, `'${option}' must name one host, as in '${url.protocol}//localhost'.`)
  }
  return url
}

/**
 * Takes the parameter that is for Redrive out of a URL, or out of a list of servers, where it may stand at any of them.
 * Refuses parameters that the driver would ignore.
 */
export function takeParameter(
  text: string,
  own: string,
  passedOn: readonly string[] = [],
): { readonly url: string; readonly value: string | undefined } {
  let value: string | undefined
  const url = String(text).replace(/\?([^,#]*)/g, (_, query: string) => {
    const parameters = new URLSearchParams(query)
    value ??= parameters.get(own) ?? undefined
    parameters.delete(own)
    const unknown = [...parameters.keys()].find(name => !passedOn.includes(name))
    // An unescaped '?' in a password makes the rest of the password a name.
    const name = unknown !== undefined && /^\w+$/.test(unknown) ? ` '${unknown}'` : ''
    if (unknown !== undefined)
      throw new OptionError(
        'url',
        `The URL has a parameter${name} that is not known here. Pass options beside the URL; '${own}' may be in it.`,
      )
    return parameters.size === 0 ? '' : `?${parameters}`
  })
  return { url, value }
}

/** Parses the URL of a broker's HTTP interface, to which paths can be added. */
export function monitoringUrl(text: string, option: string): URL {
  const url = brokerUrl(text, option, ['http:', 'https:'])
  if (!url.pathname.endsWith('/')) url.pathname += '/'
  return url
}

/** The host of a URL in one spelling: in lower case, and without the default port. */
export function hostIn({ hostname, port }: Pick<URL, 'hostname' | 'port'>, defaultPort: number): string {
  return `${hostname.toLowerCase()}${port === '' || port === String(defaultPort) ? '' : `:${port}`}`
}

function isDecodable(text: string): boolean {
  try {
    decodeURIComponent(text)
    return true
  } catch {
    return false
  }
}
