import type { StoreContract } from '../store/internal.js'
import { failureText, type Sink } from '../telemetry/index.js'
import { emit } from '../telemetry/internal.js'
import type { Collection } from './collection.js'
import { failureOf, type GivenUp } from './given-up.js'
import { documentWorkId, STUCK } from './judge-document.js'
import { recordLetters } from './letters.js'
import type { DocumentRecord, DocumentSource, OnRefused } from './source.js'

/** Where documents are marked, and who is told. */
export interface MarkOptions {
  readonly source: DocumentSource
  readonly store?: StoreContract | undefined
  readonly sink?: Sink | undefined
  readonly onRefused?: OnRefused | undefined
}

/**
 * Marks documents as failed; returns those that were marked. With a store, each gets a dead letter that refers to it. The
 * letter comes first, so that a crash in between leaves no document without one: the next sweep marks the document.
 */
export async function markFailed(
  collection: Collection,
  givenUp: readonly GivenUp[],
  now: number,
  { source, store, sink, onRefused }: MarkOptions,
): Promise<readonly DocumentRecord[]> {
  if (givenUp.length === 0) return []
  const { shape, policy } = collection
  if (store !== undefined) await recordLetters(store, collection, givenUp, now)
  const marked = await source.change(
    shape,
    givenUp.map(({ document, failure }) => ({
      document,
      to: {
        status: shape.statuses.failed,
        retryAt: null,
        ...(failure !== undefined && { lastError: failureText(failure) }),
      },
    })),
    onRefused,
  )
  const ids = new Set(marked.map(({ id }) => id))
  for (const entry of givenUp) {
    const { document, reason, verdict = STUCK } = entry
    if (sink === undefined || !ids.has(document.id)) continue
    emit(sink, {
      type: 'gave_up',
      work: {
        kind: 'document',
        id: documentWorkId(collection, document.id),
        name: collection.name,
        context: { document: document.id, lastAttemptAt: isoOf(document.lastAttemptAt) },
      },
      at: now,
      attempt: document.attemptCount,
      maxAttempts: policy.attempts,
      durationMs: 0,
      failure: failureOf(entry),
      verdict,
      reason,
    })
  }
  return marked
}

function isoOf(at: number | undefined): string | null {
  return at === undefined ? null : new Date(at).toISOString()
}
