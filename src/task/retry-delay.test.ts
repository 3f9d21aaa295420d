import { describe, expect, it, onTestFinished } from 'vitest'
import { verify } from '../operate/index.js'
import { FinalError, RateLimitedError } from '../policy/index.js'
import { MemoryStore } from '../store/internal.js'
import { fakeClock } from '../testing/index.js'
import { declareTask, defineTask, type TaskDefinition, TaskQueue, Worker } from './index.js'

const POLICY = { attempts: 4, deferrals: 1, backoff: { kind: 'fixed', base: '1s' }, jitter: 'none' } as const

/** Runs a task of this kind until it is dead. Resolves with its ledger. */
async function history(kind: TaskDefinition) {
  const clock = fakeClock()
  const store = new MemoryStore({ clock })
  const worker = new Worker(store, { tasks: [kind], clock })
  await worker.start()
  const { id } = await new TaskQueue(store).enqueue(kind, null)
  await clock.advance('1h')
  await worker.stop()
  expect(await verify(store)).toMatchObject({ unknown: 0, discrepancies: [] })
  return (await store.ledger(id)).map(({ outcome, delayMs, reason, notes }) => [
    outcome,
    delayMs ?? reason,
    notes?.askedMs,
  ])
}

function warnings(): string[] {
  const told: string[] = []
  const listener = (warning: Error) => void told.push(warning.message)
  process.on('warning', listener)
  onTestFinished(() => void process.off('warning', listener))
  return told
}

describe('the delay that the code of a task asks for', () => {
  it('goes before the backoff, is on record, and can be recomputed', async () => {
    const asked: unknown[] = []
    const kind = defineTask('k', {
      policy: POLICY,
      handler: () => {
        throw Object.assign(new Error('down'), { code: 'E_DOWN' })
      },
      retryDelay: (failure, { attempt, verdict }) => {
        asked.push([(failure as Error).message, attempt, verdict.code])
        return attempt === 1 ? '20s' : attempt === 2 ? 0 : undefined
      },
    })
    expect(await history(kind)).toEqual([
      ['retry', 20_000, 20_000],
      ['retry', 0, 0],
      ['retry', 1000, undefined],
      ['dead', 'attempts_exhausted', undefined],
    ])
    expect(asked.slice(0, 2)).toEqual([
      ['down', 1, 'E_DOWN'],
      ['down', 2, 'E_DOWN'],
    ])
  })

  it('cannot outlive the time to live, and the record says by what', async () => {
    const kind = defineTask(declareTask('k', { policy: { ...POLICY, ttl: '1m' } }), {
      handler: () => {
        throw new Error('down')
      },
      retryDelay: () => '2m',
    })
    expect(await history(kind)).toEqual([['dead', 'ttl_expired', 120_000]])
  })

  it('is not asked for after a final failure, or where a rate limit says how long to wait', async () => {
    let [calls, asked] = [0, 0]
    const kind = defineTask('k', {
      policy: POLICY,
      handler: () => {
        throw calls++ === 0 ? new RateLimitedError('slow down', { retryAfterMs: 5000 }) : new FinalError('gone')
      },
      retryDelay: () => ++asked,
    })
    expect(await history(kind)).toEqual([
      ['deferred', 5000, undefined],
      ['dead', 'final_error', undefined],
    ])
    expect(asked).toBe(0)
  })

  it.each<[string, () => unknown, RegExp]>([
    ['throws', () => JSON.parse('{'), /'retryDelay' of the task 'k' has thrown: /],
    ['is async', async () => Promise.reject(new Error('x')), /returned a value of type object, which is no duration/],
    ['answers with a negative number', () => -1, /returned -1, which is no duration/],
  ])('is that of the policy if the function %s, and a warning tells once', async (_, retryDelay, message) => {
    const told = warnings()
    const kind = defineTask('k', {
      policy: { ...POLICY, attempts: 3 },
      handler: () => {
        throw new Error('down')
      },
      retryDelay: retryDelay as () => number,
    })
    expect(await history(kind)).toEqual([
      ['retry', 1000, undefined],
      ['retry', 1000, undefined],
      ['dead', 'attempts_exhausted', undefined],
    ])
    expect(told.filter(text => message.test(text))).toHaveLength(1)
  })
})
