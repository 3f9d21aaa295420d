import type { Collection, DocumentRecord } from '../../document/index.js'

/** A document as plain JSON. */
export function documentView({ name }: Collection, document: DocumentRecord) {
  const iso = (at: number | undefined) => (at === undefined ? null : new Date(at).toISOString())
  return {
    collection: name,
    id: document.id,
    status: document.status,
    attemptCount: document.attemptCount,
    lastAttemptTime: iso(document.lastAttemptAt),
    createdAt: iso(document.createdAt),
    retryAt: iso(document.retryAt),
    lastError: document.lastError ?? null,
    ...(document.problem !== undefined && { problem: document.problem }),
  }
}
