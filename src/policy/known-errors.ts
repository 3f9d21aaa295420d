/** How the codes of network errors begin, as Node, undici and the common HTTP clients name them. */
const NETWORK =
  /^(E(CONN|HOST|NET|SOCKET|TIMEDOUT|PIPE|NOTFOUND|AI_AGAIN)|ERR_(NETWORK|SOCKET_C|STREAM_PREMATURE|HTTP2_GOAWAY)|UND_ERR_(SOCKET|\w+_TIMEOUT))/

/** PostgreSQL: class 08 is the connection; then serialisation failure, deadlock, too many connections, shutting down. */
const SQLSTATE = /^(08...|40001|40P01|53300|57P0[123])$/

/** AWS-style services say it in the error's name, often with status 400. */
const THROTTLING =
  /^(\w*Thrott(ling|led)\w*|SlowDown|TooManyRequests\w*|((Request|Bandwidth)?LimitExceeded|ProvisionedThroughputExceeded|TransactionInProgress)(Exception)?|PriorRequestNotComplete)$/

/** Thrown by the language itself: a bug, and the next attempt runs into it too. */
const BUG = /^(Type|Reference|Range|Syntax)Error$/

/** What is known of an error: `bug` and `network` apart from the rest, since one may hide the other. */
export type Knowledge = 'final' | 'bug' | 'retryable' | 'network' | 'rate_limited'

/** What Redrive knows of an error without any configuration; `undefined` for an error that it does not recognise. */
export function knowledgeOf(
  names: readonly string[],
  code = '',
  status = 0,
  retryAfterMs: number | undefined,
): Knowledge | undefined {
  const is = (pattern: RegExp) => names.some(name => pattern.test(name))
  if (is(/^AbortError$/)) return 'final'
  if (is(/^RateLimitedError$/)) return 'rate_limited'
  if (is(/^(Retryable|Timeout)Error$/)) return 'retryable'
  if (NETWORK.test(code)) return 'network'
  if (status === 429 || (status === 503 && retryAfterMs !== undefined)) return 'rate_limited'
  if (is(THROTTLING) || SQLSTATE.test(code)) return 'retryable'
  if (status >= 400)
    return [408, 425].includes(status) || (status >= 500 && ![501, 505].includes(status)) ? 'retryable' : 'final'
  return is(BUG) ? 'bug' : undefined
}
