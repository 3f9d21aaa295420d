import { type Facts, factsOf } from './facts.js'
import { type Knowledge, knowledgeOf } from './known-errors.js'
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
  const verdict = byRules(factsOf(failure, now), rules)
  return classifier === undefined ? verdict : corrected(verdict, failure, classifier)
}

function byRules(chain: Facts[], { retryOn, giveUpOn, maxRetryAfter }: ClassifierRules): Verdict {
  const list = typeof retryOn === 'object' && retryOn.length > 0 ? retryOn : undefined
  const refused = chain.find(facts => isRefused(facts, giveUpOn, list))
  if (refused !== undefined) return { class: 'final', code: codeOf(refused) }

  const { facts, knowledge } = recognise(chain)
  const listed = list && chain.find(facts => closeness(facts, list, 'RetryableError') < Infinity)
  const isFinal = retryOn === undefined ? knowledge === 'final' : retryOn === 'none' || (list && !listed)
  const code = codeOf(listed ?? facts)
  if (isFinal) return { class: 'final', code }
  if (knowledge !== 'rate_limited') return { class: 'retryable', code }
  if (facts.retryAfterMs === undefined) return { class: 'rate_limited', code }
  return { class: 'rate_limited', code, retryAfterMs: Math.min(facts.retryAfterMs, maxRetryAfter) }
}

/** The outermost error that Redrive recognises. A bug with a network error behind it is how `fetch` reports that one. */
function recognise(chain: Facts[]): { facts: Facts; knowledge: Knowledge | undefined } {
  let bug: Facts | undefined
  for (const facts of chain) {
    const knowledge = knowledgeOf(facts)
    if (knowledge === 'bug') bug ??= facts
    else if (bug === undefined ? knowledge !== undefined : knowledge === 'network') return { facts, knowledge }
  }
  if (bug !== undefined) return { facts: bug, knowledge: 'final' }
  return { facts: chain[0] as Facts, knowledge: undefined }
}

/** On the give-up list, and not at least as closely on the retry list. */
function isRefused(
  facts: Facts,
  giveUpOn: readonly FailureMatch[],
  retryOn: readonly FailureMatch[] | undefined,
): boolean {
  const refusal = closeness(facts, giveUpOn, 'FinalError')
  return refusal < Infinity && (retryOn === undefined || refusal < closeness(facts, retryOn, 'RetryableError'))
}

/**
 * How closely a list names an error: 0 for its own name, its code or its status, 1 for a range of statuses, n for its
 * n-th ancestor class, infinity for not at all. `always` is a class that counts as listed.
 */
function closeness({ names, code, status }: Facts, list: readonly FailureMatch[], always: string): number {
  const said = names.indexOf(always)
  let closest = said === -1 ? Infinity : said
  for (const entry of list) {
    const isExact = typeof entry === 'number' ? entry === status : equal(entry, code)
    if (isExact) return 0
    if (typeof entry === 'number') continue
    if (status !== undefined && equal(entry, `${Math.floor(status / 100)}xx`)) closest = Math.min(closest, 1)
    const distance = names.findIndex(name => equal(entry, name) || (name === 'TimeoutError' && equal(entry, 'timeout')))
    if (distance !== -1) closest = Math.min(closest, distance)
  }
  return closest
}

function equal(a: string, b: string | undefined): boolean {
  return b !== undefined && a.length === b.length && a.toLowerCase() === b.toLowerCase()
}

/** A short, stable name for an error, for records and metrics. */
function codeOf({ names: [name], code, status }: Facts): string {
  if (name === 'TimeoutError') return 'timeout'
  if (status !== undefined) return `http_${status}`
  if (code !== undefined && /^[\w.:-]+$/.test(code)) return code
  return name === undefined || name === 'Error' ? 'unknown' : name
}

/** A classifier that throws is a bug, so its failure is final, and the code on record says why. */
function corrected(verdict: Verdict, failure: unknown, classifier: Classifier): Verdict {
  try {
    const correction = classifier(failure, verdict) ?? verdict
    if (typeof correction !== 'string') return correction
    return correction === verdict.class ? verdict : { class: correction, code: verdict.code }
  } catch {
    return { class: 'final', code: 'classifier_failed' }
  }
}
