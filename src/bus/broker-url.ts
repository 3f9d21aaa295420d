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
