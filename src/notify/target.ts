import { STATUS_CODES } from 'node:http'
import { HttpError } from '../call/index.js'
import { FinalError, OptionError } from '../policy/index.js'
import { checkOptions, type KnownOptions, quoted } from '../policy/internal.js'
import type { Notification } from './notice.js'

/** A place that messages are sent to. `slack()` and `webhook()` make one; so can you. */
export interface Target {
  /** Its name in the store, in dead letters and in logs: letters, digits and _.- */
  readonly name: string
  /** Sends a message. Rejects unless the other side accepts it. The same message may come twice. */
  send(message: Notification, signal: AbortSignal): Promise<void>
}

/** Options of a target. */
export interface TargetOptions {
  /** Its name in the store, in dead letters and in logs. Default: `slack` or `webhook`. */
  readonly name?: string | undefined
  /** Headers of every request, such as `authorization`. */
  readonly headers?: Readonly<Record<string, string>> | undefined
  /** Allow a URL without TLS that is not on this machine. */
  readonly allowHttp?: boolean | undefined
}

const TARGET_OPTIONS: KnownOptions<TargetOptions> = { name: '', headers: 'object', allowHttp: '' }

const LOOPBACK = /^(localhost|127(\.\d{1,3}){3}|\[::1\])$/

/** A URL. It is a secret, like the headers, and stays in the process that made it: neither the store nor an error shows it. */
class HttpTarget implements Target {
  readonly name: string
  readonly #url: URL
  readonly #headers: Readonly<Record<string, string>>
  readonly #bodyOf: (message: Notification) => unknown

  constructor(
    url: string | URL | undefined,
    { name = '', headers = {}, allowHttp = false }: TargetOptions,
    bodyOf: (message: Notification) => unknown,
  ) {
    this.name = name
    this.#url = checkedUrl(name, url, allowHttp)
    this.#headers = checkedHeaders(name, headers)
    this.#bodyOf = bodyOf
  }

  async send(message: Notification, signal: AbortSignal): Promise<void> {
    const answer = await fetch(this.#url, {
      method: 'POST',
      // It may arrive twice: whoever keeps the key can tell.
      headers: { 'content-type': 'application/json', 'idempotency-key': message.id, ...this.#headers },
      body: JSON.stringify(this.#bodyOf(message)),
      // Another place than the one that was configured gets nothing.
      redirect: 'manual',
      signal,
    })
    await answer.body?.cancel()
    if (answer.ok) return
    if (answer.status >= 300 && answer.status < 400)
      throw new FinalError(`The target '${this.name}' answered with a redirect. Configure the URL that it points to.`, {
        code: 'redirected',
      })
    throw new HttpError(inOwnWords(answer))
  }
}

/** Sends messages to an incoming webhook of Slack, or of a compatible service such as Mattermost or Rocket.Chat. */
export function slack(url: string | URL | undefined, options: TargetOptions = {}): Target {
  checkOptions('slack()', options, TARGET_OPTIONS)
  return new HttpTarget(url, { name: 'slack', ...options }, ({ text }) => ({ text: escaped(text) }))
}

/** Sends messages to your own URL, as a JSON object: `id`, `type`, `at`, `text` and `facts`. */
export function webhook(url: string | URL | undefined, options: TargetOptions = {}): Target {
  checkOptions('webhook()', options, TARGET_OPTIONS)
  return new HttpTarget(url, { name: 'webhook', ...options }, message => message)
}

/** The answer with the usual words for its status: those of the server may repeat the URL, and end up in the ledger. */
function inOwnWords(answer: Response): Response {
  // Not a new one: that takes no status above 599, and a server may answer with any.
  return Object.defineProperty(answer, 'statusText', { value: STATUS_CODES[answer.status] ?? '' })
}

/**
 * Slack's own escapes. Without them, a text could mention a whole channel. Mattermost and Rocket.Chat know such mentions by their name
 * alone, so a space of no width parts that from its sign.
 */
function escaped(text: string): string {
  const plain = text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
  return plain.replace(/@(?=channel|here|everyone|all)/gi, '@\u200b')
}

/** The URL is never part of an error: it may be the only secret there is. */
function checkedUrl(name: string, given: string | URL | undefined, allowHttp: boolean): URL {
  if (given === undefined || given === '')
    throw new OptionError('url', `The target '${name}' has no URL. Is its environment variable set?`)
  if (!URL.canParse(given)) throw new OptionError('url', `The URL of the target '${name}' is invalid.`)
  const url = new URL(given)
  // `fetch` refuses such a URL, and repeats all of it in its error.
  if (url.username !== '' || url.password !== '')
    throw new OptionError(
      'url',
      `The URL of the target '${name}' has a user or a password in it. Pass them as the header 'authorization'.`,
    )
  const isSafe = url.protocol === 'https:' || (url.protocol === 'http:' && (allowHttp || LOOPBACK.test(url.hostname)))
  if (isSafe) return url
  throw new OptionError('url', `The URL of the target '${name}' must begin with https://, or set 'allowHttp'.`)
}

/** The value of a header is never part of an error either: those of `fetch` would repeat it with every message. */
function checkedHeaders(name: string, headers: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  for (const [header, value] of Object.entries(headers)) {
    if (isSendable(header, value)) continue
    const problem =
      typeof value === 'string' ? 'cannot be sent.' : 'has no value. Is the variable that it reads not set?'
    throw new OptionError('headers', `The header ${quoted(header)} of the target '${name}' ${problem}`)
  }
  return headers
}

function isSendable(header: string, value: unknown): boolean {
  try {
    return typeof value === 'string' && new Headers({ [header]: value }).has(header)
  } catch {
    return false
  }
}
