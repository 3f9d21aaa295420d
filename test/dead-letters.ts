import { fingerprint } from '../src/fingerprint/internal.js'
import type { NewTask, Store } from '../src/store/index.js'

/** A dead letter to be made, with any id, lane, payload, code, message and stack. */
export interface Letter extends Partial<Pick<NewTask, 'kind' | 'category' | 'key' | 'payload'>> {
  readonly id: string
  readonly code?: string
  readonly message?: string
  readonly stack?: string
}

/** Puts dead letters into a store, as if a worker had tried each once. */
export async function deadLetters(store: Store, letters: readonly Letter[]): Promise<void> {
  const now = await store.now()
  await store.enqueue(
    letters.map(({ id, code = 'E', message = 'broken', stack, ...lane }) => {
      const verdict = { class: 'retryable', code } as const
      const group = fingerprint({ kind: lane.kind ?? 'k', code, error: message, stack })
      const attempt = { attempt: 1, startedAt: now, endedAt: now, worker: 'w', verdict, error: message, stack, group }
      const tried = { outcome: { type: 'dead', reason: 'attempts_exhausted' } as const, attempt }
      return { kind: 'k', payload: '{}', ...lane, id, tried }
    }),
  )
}
