import { decide, type GiveUpReason, identityRandom, type Verdict } from '../policy/index.js'
import type { Collection } from './collection.js'
import type { DocumentRecord } from './source.js'

/** The decision of a sweep on a stuck document. */
export type Judgement =
  | { readonly action: 'dispatch' }
  /** Its backoff is not over. */
  | { readonly action: 'wait'; readonly until: number }
  | { readonly action: 'give_up'; readonly reason: GiveUpReason }

/** Nobody has said how the attempt ended: that is why the document is stuck. */
export const STUCK: Verdict = { class: 'retryable', code: 'stuck' }

/**
 * Asks the kernel about a stuck document. `count` attempts are on record, the last of which counts as failed, since it has
 * not ended in time. A document that was never attempted has no failure to decide on.
 */
export function judgeDocument(collection: Collection, document: DocumentRecord, now: number): Judgement {
  const { attemptCount, lastAttemptAt } = document
  if (attemptCount === 0) return { action: 'dispatch' }
  const decision = decideDocument(collection, document, STUCK, lastAttemptAt ?? -Infinity)
  if (decision.action === 'give_up') return decision
  // A time that was set for the next attempt already holds its backoff, or asks for another time.
  if (document.retryAt !== undefined) return { action: 'dispatch' }
  return decision.at <= now ? { action: 'dispatch' } : { action: 'wait', until: decision.at }
}

/** Asks the kernel what follows from the document's latest attempt, which failed at a time. */
export function decideDocument(collection: Collection, document: DocumentRecord, verdict: Verdict, failedAt: number) {
  const { id, attemptCount, createdAt } = document
  const random = identityRandom(documentWorkId(collection, id), attemptCount)
  const history = { attempts: attemptCount - 1, deferrals: 0, startedAt: createdAt ?? failedAt }
  // A rate limit is an attempt like any other: a document has no count of deferrals.
  return decide({ ...collection.policy, deferrals: 0 }, history, verdict, { now: failedAt, random })
}

/** The identity of a document, over all collections. */
export function documentWorkId({ name }: Pick<Collection, 'name'>, id: string): string {
  return `${name}/${id}`
}
