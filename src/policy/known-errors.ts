import type { Facts } from './facts.js'

/** Errors of the network as Node, undici and the common HTTP clients name them. */
const NETWORK_CODES = words(`
  ECONNRESET ECONNREFUSED ECONNABORTED ETIMEDOUT ESOCKETTIMEDOUT EPIPE ENOTFOUND EAI_AGAIN
  EHOSTUNREACH EHOSTDOWN ENETUNREACH ENETDOWN ENETRESET ERR_NETWORK ERR_STREAM_PREMATURE_CLOSE
  ERR_SOCKET_CONNECTION_TIMEOUT ERR_HTTP2_GOAWAY_SESSION UND_ERR_SOCKET UND_ERR_CONNECT_TIMEOUT
  UND_ERR_HEADERS_TIMEOUT UND_ERR_BODY_TIMEOUT`)

/** PostgreSQL: class 08 is the connection; then serialisation failure, deadlock, too many connections, shutting down. */
const SQLSTATE = /^(08...|40001|40P01|53300|57P0[123])$/

/** AWS-style services say it in the error's name, often with status 400. */
const THROTTLING_NAMES = words(`
  Throttling ThrottlingException ThrottledException RequestThrottled RequestThrottledException SlowDown
  TooManyRequestsException RequestLimitExceeded BandwidthLimitExceeded LimitExceededException EC2ThrottledException
  ProvisionedThroughputExceededException TransactionInProgressException PriorRequestNotComplete`)

/** Thrown by the language itself: a bug, and the next attempt runs into it too. */
const BUG_NAMES = words('TypeError ReferenceError RangeError SyntaxError')

/** What is known of an error: `bug` and `network` apart from the rest, since one may hide the other. */
export type Knowledge = 'final' | 'bug' | 'retryable' | 'network' | 'rate_limited'

/** What Redrive knows of an error without any configuration; `undefined` for an error that it does not recognise. */
export function knowledgeOf({ names, code, status, retryAfterMs }: Facts): Knowledge | undefined {
  if (names.includes('AbortError')) return 'final'
  if (names.includes('RateLimitedError')) return 'rate_limited'
  if (names.includes('RetryableError') || names.includes('TimeoutError')) return 'retryable'
  if (code !== undefined && NETWORK_CODES.has(code)) return 'network'
  if (status === 429 || (status === 503 && retryAfterMs !== undefined)) return 'rate_limited'
  if (names.some(name => THROTTLING_NAMES.has(name)) || (code !== undefined && SQLSTATE.test(code))) return 'retryable'
  if (status !== undefined && status >= 400) return ofStatus(status)
  return names.some(name => BUG_NAMES.has(name)) ? 'bug' : undefined
}

function ofStatus(status: number): Knowledge {
  if (status >= 500) return status === 501 || status === 505 ? 'final' : 'retryable'
  return status === 408 || status === 425 ? 'retryable' : 'final'
}

function words(text: string): ReadonlySet<string> {
  return new Set(text.trim().split(/\s+/))
}
