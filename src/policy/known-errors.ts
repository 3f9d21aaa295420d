/** How the codes of network errors begin, as Node, its HTTP parser, undici and the common HTTP clients name them. */
const NETWORK =
  /^(HPE_|E(CONN|HOST|NET|SOCKET|TIMEDOUT|PIPE|NOTFOUND|AI_)|(UND_)?ERR_(NET|SOCKET(?!_BAD)|STREAM_P|HTTP2_G|\w+_TIMEOUT))/

/** AWS-style services say it in the error's name, often with status 400. */
const THROTTLING = /Throttl|^(SlowDown|TooManyReq|ProvisionedThr|TransactionIn|PriorReq|(Request|Bandwidth)?LimitEx)/m

/** Request timeout, too early, and what is the server's own fault but for what it cannot do at all. */
const PASSING = /^(408|425|5(?!01|05))/

/** Thrown by the language itself, or by us for a wrong argument: a bug, and the next attempt runs into it too. */
const BUG = /^(Type|Reference|Range|Syntax|Option|Policy)Error$/m

/** The knowledge of an error: `bug` and `network` apart from the rest, since one may hide the other. */
export type Knowledge = 'final' | 'bug' | 'retryable' | 'network' | 'rate_limited'

/** Whether a code is that of a network error. */
export function isNetworkCode(code: string): boolean {
  return NETWORK.test(code)
}

/** The names of an error, and what they say of it: for certain, or unless its code or status says otherwise. */
export interface NameKnowledge {
  readonly names: readonly string[]
  readonly certain: Knowledge | undefined
  readonly isThrottling: boolean
  readonly isBug: boolean
}

/** Tells what Redrive knows of an error by its names alone. */
export function nameKnowledge(names: readonly string[]): NameKnowledge {
  // A name per line, as the patterns above expect them.
  const lines = names.join('\n')
  return { names, certain: certainty(names), isThrottling: THROTTLING.test(lines), isBug: BUG.test(lines) }
}

function certainty(names: readonly string[]): Knowledge | undefined {
  if (names.includes('AbortError')) return 'final'
  if (names.includes('RateLimitedError')) return 'rate_limited'
  return names.includes('RetryableError') || names.includes('TimeoutError') ? 'retryable' : undefined
}

/**
 * Tells what Redrive knows of an error without any configuration; `undefined` for an error that it does not recognise,
 * which is retried as well. Of errors that pass, only those are here that could be taken for others: PostgreSQL's are not.
 */
export function knowledgeOf(
  { certain, isThrottling, isBug }: NameKnowledge,
  code: string | undefined,
  status = 0,
  retryAfterMs: number | undefined,
): Knowledge | undefined {
  if (certain) return certain
  if (code && NETWORK.test(code)) return 'network'
  if (status === 429 || (status === 503 && retryAfterMs !== undefined)) return 'rate_limited'
  if (isThrottling) return 'retryable'
  if (status >= 400) return PASSING.test(String(status)) ? 'retryable' : 'final'
  return isBug ? 'bug' : undefined
}
