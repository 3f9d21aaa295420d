import { ENOUGH, type Facts, factsOf } from './facts.js'
import type { FailureMatch, Policy, Verdict } from './policy.js'

/** The part of a policy that the classifier reads. @inline */
export type ClassifierRules = Pick<Policy, 'retryOn' | 'giveUpOn' | 'maxRetryAfter'>

/**
 * Corrects verdicts in code, where the lists of a policy are not enough: receives the failure and the verdict so far,
 * and may return another.
 */
export type Classifier = (failure: unknown, verdict: Verdict) => Verdict | Verdict['class'] | undefined

/**
 * Classifies a failure as final, retryable or rate limited: by its class, code or status, never by its message.
 *
 * 1. A match of `giveUpOn` anywhere in the chain of causes is final, unless `retryOn` names that very error as closely.
 * 2. The outermost error that `retryOn` lists is retried.
 * 3. Otherwise `retryOn` itself answers: a list means final, `'none'` too, `'all'` or an empty list means retry.
 * 4. Without `retryOn`, the outermost error that Redrive recognises decides. What nobody recognises is retryable.
 *
 * A `FinalError` counts as listed to give up on, a `RetryableError` as listed to retry. Never throws.
 */
export function classify(failure: unknown, rules: ClassifierRules, now: number, classifier?: Classifier): Verdict {
  const draft = byRules(factsOf(failure, now), rules)
  const verdict = verdictOf(draft, rules)
  if (!classifier) return verdict
  try {
    const said = classifier(failure, verdict) ?? verdict
    // A classifier that is async by mistake is a bug, but must not end the process when it rejects.
    Promise.resolve(said).catch(() => {})
    // Bounded, since stores index it. Throws if it is not text.
    const correction =
      typeof said === 'string'
        ? { ...draft, class: said }
        : { ...said, code: (said.code ?? verdict.code).substring(0, ENOUGH) }
    if (['final', 'retryable', 'rate_limited'].includes(correction.class)) return verdictOf(correction, rules)
  } catch {
    // As below: a classifier that throws, or answers with anything but a verdict, is a bug.
  }
  return { class: 'final', code: 'classifier_failed' }
}

/** A verdict whose hint has not been looked at yet. */
interface Draft {
  readonly class: Verdict['class']
  readonly code: string
  readonly retryAfterMs?: number
}

/** Only a rate limit has a hint: whole milliseconds, and no more of them than the policy allows. */
function verdictOf({ class: kind, code, retryAfterMs = NaN }: Draft, { maxRetryAfter }: ClassifierRules): Verdict {
  return kind === 'rate_limited' && retryAfterMs >= 0
    ? { class: kind, code, retryAfterMs: Math.round(Math.min(retryAfterMs, maxRetryAfter)) }
    : { class: kind, code }
}

function byRules(chain: readonly Facts[], { retryOn, giveUpOn }: ClassifierRules): Draft {
  const list = typeof retryOn === 'object' && retryOn.length > 0 ? retryOn : undefined
  const { refused, listed, known, retryAfterMs } = outermost(chain, list, giveUpOn)
  const knowledge = known?.knowledge

  const isUnlisted = retryOn === 'none' || (list && !listed)
  const isFinal = refused || (retryOn ? isUnlisted : knowledge === 'final' || knowledge === 'bug')
  return {
    class: isFinal ? 'final' : knowledge === 'rate_limited' ? 'rate_limited' : 'retryable',
    code: codeOf(refused ?? listed ?? known ?? (chain[0] as Facts)),
    retryAfterMs,
  }
}

/**
 * The outermost error of a chain that is refused, listed and known, and its outermost hint: an error around a rate limit
 * seldom repeats it. One pass rather than a search for each, which would take twice as long.
 */
function outermost(
  chain: readonly Facts[],
  list: readonly FailureMatch[] | undefined,
  giveUpOn: readonly FailureMatch[],
) {
  let refused: Facts | undefined
  let listed: Facts | undefined
  let known: Facts | undefined
  let retryAfterMs: number | undefined
  for (const facts of chain) {
    const toRetry = list ? closeness(facts, list, 'RetryableError') : Infinity
    if (closeness(facts, giveUpOn, 'FinalError') < toRetry) refused ??= facts
    if (toRetry < Infinity) listed ??= facts
    if (facts.knowledge) known ??= facts
    retryAfterMs ??= facts.retryAfterMs
  }
  // A bug with a network error behind it is how `fetch` reports that one.
  if (known?.knowledge === 'bug') known = chain.find(facts => facts.knowledge === 'network') ?? known
  return { refused, listed, known, retryAfterMs }
}

/** How closely a list names an error: as its closest entry does. `always` is a class that counts as listed. */
function closeness(facts: Facts, list: readonly FailureMatch[], always: string): number {
  let closest = distance(facts, always)
  for (const entry of list) closest = Math.min(closest, distance(facts, entry))
  return closest
}

/**
 * 0 for an error's own name, its code or its status, 1 for a range of statuses, n for its n-th ancestor class, infinity
 * for what does not name it at all.
 */
function distance({ names, code, status }: Facts, entry: FailureMatch): number {
  if (entry === status || isSame(entry, code)) return 0
  if (status && isSame(entry, `${String(status)[0]}xx`)) return 1
  let place = 0
  for (const name of names) {
    if (isSame(entry, name) || (name === 'TimeoutError' && isSame(entry, 'timeout'))) return place
    place++
  }
  return Infinity
}

function isSame(entry: FailureMatch, word: string | undefined): boolean {
  // Their lengths first: most words are no match, and lower case takes ten times as long.
  return typeof entry === 'string' && entry.length === word?.length && entry.toLowerCase() === word.toLowerCase()
}

/** A short, stable name for an error, for records and metrics. */
function codeOf({ names, code, status }: Facts): string {
  const name = names[0]
  if (name === 'TimeoutError') return 'timeout'
  if (status) return `http_${status}`
  return telling(code) ?? telling(name) ?? 'unknown'
}

function telling(word: string | undefined): string | undefined {
  return word && word !== 'Error' && /^[\w.:-]+$/.test(word) ? word : undefined
}
