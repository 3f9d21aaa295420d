import { type Facts, factsOf } from './facts.js'
import type { FailureMatch, Policy, Verdict } from './policy.js'

/** What of a policy the classifier reads. */
export type ClassifierRules = Pick<Policy, 'retryOn' | 'giveUpOn' | 'maxRetryAfter'>

/** Code beside a policy, for what data cannot say: sees the failure and the verdict so far, and may return another. */
export type Classifier = (failure: unknown, verdict: Verdict) => Verdict | Verdict['class'] | undefined

/**
 * Says of a failure whether it is final, retryable or rate limited: by its class, code or status, never by its message.
 *
 * 1. A match of `giveUpOn` anywhere in the chain of causes is final, unless `retryOn` names that very error as closely.
 * 2. The outermost error that `retryOn` lists is retried.
 * 3. Otherwise `retryOn` itself answers: a list means final, `'none'` too, `'all'` or an empty list means retry.
 * 4. Without `retryOn`, the outermost error that Redrive recognises decides. What nobody recognises is retryable.
 *
 * A `FinalError` counts as listed to give up on, a `RetryableError` as listed to retry. Never throws.
 */
export function classify(failure: unknown, rules: ClassifierRules, now: number, classifier?: Classifier): Verdict {
  const chain = factsOf(failure, now)
  // The outermost hint: an error around a rate limit seldom repeats it.
  const hintMs = chain.find(({ retryAfterMs }) => retryAfterMs !== undefined)?.retryAfterMs
  const { class: kind, code } = byRules(chain, rules)
  const verdict = verdictOf(kind, code, hintMs, rules)
  return classifier ? corrected(verdict, failure, classifier, hintMs, rules) : verdict
}

/** Only a rate limit has a hint: whole milliseconds, and no more of them than the policy allows. */
function verdictOf(kind: Verdict['class'], code: string, hintMs = NaN, { maxRetryAfter }: ClassifierRules): Verdict {
  if (kind !== 'rate_limited' || !(hintMs >= 0)) return { class: kind, code }
  return { class: kind, code, retryAfterMs: Math.round(Math.min(hintMs, maxRetryAfter)) }
}

function byRules(chain: readonly Facts[], { retryOn, giveUpOn }: ClassifierRules): Omit<Verdict, 'retryAfterMs'> {
  const list = typeof retryOn === 'object' && retryOn.length > 0 ? retryOn : undefined
  const toRetry = (facts: Facts) => (list ? closeness(facts, list, 'RetryableError') : Infinity)
  const refused = chain.find(facts => closeness(facts, giveUpOn, 'FinalError') < toRetry(facts))
  if (refused) return { class: 'final', code: codeOf(refused) }

  const known = recognised(chain)
  const listed = chain.find(facts => toRetry(facts) < Infinity)
  const isFinal = retryOn
    ? retryOn === 'none' || (list && !listed)
    : known.knowledge === 'final' || known.knowledge === 'bug'
  const code = codeOf(listed ?? known)
  if (isFinal) return { class: 'final', code }
  return { class: known.knowledge === 'rate_limited' ? 'rate_limited' : 'retryable', code }
}

/** The outermost error that Redrive recognises. A bug with a network error behind it is how `fetch` reports that one. */
function recognised(chain: readonly Facts[]): Facts {
  const first = chain.find(({ knowledge }) => knowledge) ?? (chain[0] as Facts)
  const network = first.knowledge === 'bug' ? chain.find(({ knowledge }) => knowledge === 'network') : undefined
  return network ?? first
}

/**
 * How closely a list names an error: 0 for its own name, its code or its status, 1 for a range of statuses, n for its
 * n-th ancestor class, infinity for not at all. `always` is a class that counts as listed.
 */
function closeness({ names, code, status }: Facts, list: readonly FailureMatch[], always: string): number {
  let closest = orInfinity(names.indexOf(always))
  for (const entry of list) {
    if (entry === status || isSame(entry, code)) return 0
    if (status !== undefined && isSame(entry, `${String(status)[0]}xx`)) closest = Math.min(closest, 1)
    const distance = names.findIndex(
      name => isSame(entry, name) || (name === 'TimeoutError' && isSame(entry, 'timeout')),
    )
    closest = Math.min(closest, orInfinity(distance))
  }
  return closest
}

function orInfinity(index: number): number {
  return index < 0 ? Infinity : index
}

function isSame(entry: FailureMatch, word: string | undefined): boolean {
  return typeof entry === 'string' && entry.toLowerCase() === word?.toLowerCase()
}

/** A short, stable name for an error, for records and metrics. */
function codeOf({ names: [name = ''], code = '', status }: Facts): string {
  if (name === 'TimeoutError') return 'timeout'
  if (status) return `http_${status}`
  const word = [code, name].find(word => /^[\w.:-]+$/.test(word))
  return word === undefined || word === 'Error' ? 'unknown' : word
}

/** A classifier that throws, or answers with what is no verdict, is a bug: the failure is final, and its code says why. */
function corrected(
  verdict: Verdict,
  failure: unknown,
  classifier: Classifier,
  hintMs: number | undefined,
  rules: ClassifierRules,
): Verdict {
  try {
    const correction = classifier(failure, verdict) ?? verdict
    const said: Partial<Extract<Verdict, { class: 'rate_limited' }>> | Verdict =
      typeof correction === 'string' ? { class: correction, code: verdict.code, retryAfterMs: hintMs } : correction
    const { class: kind, code = verdict.code } = said
    const waitMs = 'retryAfterMs' in said ? said.retryAfterMs : undefined
    const isVerdict = kind === 'final' || kind === 'retryable' || kind === 'rate_limited'
    if (isVerdict && typeof code === 'string') return verdictOf(kind, code, waitMs, rules)
  } catch {
    // As below.
  }
  return { class: 'final', code: 'classifier_failed' }
}
