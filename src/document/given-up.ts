import { type GiveUpReason, RetryableError, type Verdict } from '../policy/index.js'
import { STUCK } from './judge-document.js'
import type { DocumentRecord } from './source.js'

/** A document that is beyond help, and why. */
export interface GivenUp {
  readonly document: DocumentRecord
  readonly reason: GiveUpReason
  readonly verdict?: Verdict
  readonly failure?: unknown
}

/** The failure of a document: what its service reported, or that nobody reported anything. */
export function failureOf({ document, failure }: Pick<GivenUp, 'document' | 'failure'>): unknown {
  return failure ?? new RetryableError(document.lastError ?? 'No attempt ended in time.', { code: STUCK.code })
}
