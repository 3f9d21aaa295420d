import { fingerprint, PatternRules } from '../src/fingerprint/internal.js'
import type { NewTask } from '../src/store/index.js'
import type { NewGroupRule, StoreContract } from '../src/store/internal.js'

/** A dead letter to be made, with any id, lane, payload, code, message and stack, and where it was tried. */
export interface Letter extends Partial<Pick<NewTask, 'kind' | 'category' | 'key' | 'payload'>> {
  readonly id: string
  readonly code?: string
  readonly message?: string
  readonly stack?: string
  readonly worker?: string
  readonly release?: string
}

/** Puts dead letters into a store, as if a worker that has these rules had tried each once. */
export async function deadLetters(
  store: StoreContract,
  letters: readonly Letter[],
  rules: readonly NewGroupRule[] = [],
): Promise<void> {
  const now = await store.now()
  const compiled = new PatternRules(rules)
  await store.enqueue(
    letters.map(({ id, code = 'E', message = 'broken', stack, worker = 'w', release, ...lane }) => {
      const verdict = { class: 'retryable', code } as const
      const group = fingerprint({ kind: lane.kind ?? 'k', code, error: message, stack }, compiled)
      const times = { startedAt: now, endedAt: now }
      const attempt = { attempt: 1, ...times, worker, release, verdict, error: message, stack, group }
      const tried = { outcome: { type: 'dead', reason: 'attempts_exhausted' } as const, attempt }
      return { kind: 'k', payload: '{}', ...lane, id, tried }
    }),
  )
}
