import type { Collection, DocumentRecord } from '../../../document/index.js'

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
    ...(document.problem !== undefined && { problem: document.problem, unreadable: document.unreadable ?? [] }),
  }
}

type DocumentView = ReturnType<typeof documentView>

/** The number of attempts for people. A value that cannot be read is not 0. */
export function attemptsText({ attemptCount, unreadable }: DocumentView): string {
  return unreadable?.includes('attemptCount') ? 'unreadable' : String(attemptCount)
}

/** The last attempt for people, its time written by `write`. A value that cannot be read does not mean never. */
export function lastAttemptText({ lastAttemptTime, unreadable }: DocumentView, write: (at: string) => string): string {
  if (unreadable?.includes('lastAttemptTime')) return 'unreadable'
  return lastAttemptTime === null ? 'never' : write(lastAttemptTime)
}
