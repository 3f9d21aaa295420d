import { OptionError, type PolicyInput, policy as parse, policies, RedriveError } from '../policy/index.js'
import { checkOptions } from '../policy/internal.js'
import type { Attempt } from './attempt.js'
import { RetryExhaustedError } from './errors.js'
import { RETRY_OPTIONS, type RetryOptions, retry } from './retry.js'

/** The options of `fetch`, and how to retry it. @inline */
export interface RetryFetchInit extends RequestInit {
  /** How to retry. Default `policies.call`. */
  readonly policy?: PolicyInput | undefined
  /** The other options of `retry`. */
  readonly retry?: Omit<RetryOptions, 'signal'> | undefined
  /** Sent as `Idempotency-Key`, the same with every attempt, and makes any method repeatable. `true` generates one. */
  readonly idempotencyKey?: string | true | undefined
  /** Called instead of the global `fetch`. */
  readonly fetch?: typeof fetch | undefined
}

/** A response with a status of 400 or more, as an error. */
export class HttpError extends RedriveError {
  static {
    HttpError.prototype.name = 'HttpError'
  }

  constructor(
    /** The response. */
    readonly response: Response,
  ) {
    super(`http_${response.status}`, `The server answered ${response.status} ${response.statusText}`.trimEnd())
  }
}

/** On Node 20 `AbortSignal.any` forgets a signal that nobody else holds, such as `AbortSignal.timeout()`: an answer does. */
const callerOf = new WeakMap<Response, AbortSignal>()

/** Methods that do the same whether they arrive once or twice (RFC 9110, 9.2.2). */
const REPEATABLE = new Set(['GET', 'HEAD', 'OPTIONS', 'TRACE', 'PUT', 'DELETE'])

/**
 * `fetch` with retries: network errors, timeouts and the statuses that the policy retries; `Retry-After` is obeyed.
 *
 * A request is retried only if that is safe: its method is idempotent or it has an idempotency key, and its body is not
 * a stream. As with `fetch`, an error status does not reject: the last response is returned, whatever its status. The
 * policy's timeout ends with the response headers; reading the body is up to the caller.
 *
 * ```ts
 * const response = await retryFetch(url, { method: 'POST', body, idempotencyKey: true, policy: { timeout: '5s' } })
 * ```
 */
export async function retryFetch(input: string | URL | Request, init: RetryFetchInit = {}): Promise<Response> {
  const { policy = policies.call, retry: options = {}, idempotencyKey, fetch: send = fetch, ...request } = init
  checkOptions("The 'retry' of retryFetch()", options, RETRY_OPTIONS)
  // `init` overrides a request's own fields, as it does for `fetch`.
  const given = input instanceof Request ? input : undefined
  const method = (request.method ?? given?.method ?? 'GET').toUpperCase()
  const headers = new Headers(request.headers ?? given?.headers)
  if (idempotencyKey !== undefined) headers.set('idempotency-key', keyOf(idempotencyKey))
  const caller = request.signal ?? given?.signal

  const parsed = parse(policy)
  const isSafe = REPEATABLE.has(method) || headers.has('idempotency-key')
  const effective = isSafe && !isStream(request.body) ? parsed : { ...parsed, attempts: 1, deferrals: 0 }

  /** The last answer that was not good enough. */
  let refused: Response | undefined
  const attempt = async ({ signal }: Attempt) => {
    release(refused)
    refused = undefined
    // Once the answer's head is here the attempt is over, but the caller may still abort the reading of its body.
    const either = caller ? AbortSignal.any([caller, signal]) : signal
    const answer = await send(given?.clone() ?? input, { ...request, headers, signal: either })
    if (caller) callerOf.set(answer, caller)
    if (signal.aborted) {
      release(answer)
      throw signal.reason
    }
    if (answer.status < 400) return answer
    refused = answer
    throw new HttpError(answer)
  }
  try {
    return await retry(attempt, effective, {
      ...options,
      name: options.name ?? nameOf(method, input),
      signal: caller ?? undefined,
    })
  } catch (error) {
    const failure = isA(error, RetryExhaustedError) ? error.cause : error
    if (isA(failure, HttpError)) return failure.response
    release(refused)
    throw error
  }
}

/** `instanceof`, for what anybody may have thrown: a proxy may refuse the question. */
function isA<T extends Error>(failure: unknown, type: abstract new (...args: never[]) => T): failure is T {
  try {
    return failure instanceof type
  } catch {
    return false
  }
}

/** The method and where it goes, without the query and the credentials: they may hold secrets. */
function nameOf(method: string, input: string | URL | Request): string {
  const url = input instanceof Request ? input.url : String(input)
  return `${method} ${url.replace(/[?#].*$/s, '').replace(/^([^/]*\/\/)[^/]*@/, '$1')}`
}

/** Lets go of an answer that nobody will read: it holds its connection. Someone who is reading it already may go on. */
function release(answer: Response | undefined): void {
  answer?.body?.cancel().catch(() => {})
}

function keyOf(key: string | true): string {
  if (key === true) return crypto.randomUUID()
  if (/^[\x21-\x7e]{1,255}$/.test(key)) return key
  throw new OptionError(
    'idempotencyKey',
    `'idempotencyKey' must be 1 to 255 visible ASCII characters, got '${key.slice(0, 40)}'.`,
  )
}

/** A stream can be sent once: by the second attempt it has been read. */
function isStream(body: unknown): boolean {
  return typeof body === 'object' && body !== null && (body instanceof ReadableStream || Symbol.asyncIterator in body)
}
