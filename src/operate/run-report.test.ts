import { expect, it } from 'vitest'
import { batch, pipeline, type StageContext, stage } from '../pipeline/index.js'
import { FinalError } from '../policy/index.js'
import { MemoryStore, type RunSettings } from '../store/internal.js'
import { reportRun } from './run-report.js'

const SETTINGS: RunSettings = {
  failureBudget: 1,
  stageBudgets: {},
  checkInterval: 1000,
  budgetWindow: undefined,
  completedFrom: 0.95,
  partialFrom: 0.5,
  maxUnfinished: 10_000,
  concurrency: {},
}

const VERDICT = { class: 'final', code: 'http_422' } as const
const ITEMS = 1200

/** A run of two stages over several pages of items. Every hundredth item dies in the second stage. */
async function finishedRun(): Promise<MemoryStore> {
  const store = new MemoryStore()
  await store.runs.open({ id: 'r', pipeline: 'p', version: 'v1', stages: ['fetch', 'llm'], settings: SETTINGS })
  const items = Array.from({ length: ITEMS }, (_, i) => ({ payload: String(i) }))
  await store.runs.take('r', { reader: 'w', leaseMs: 30_000, position: 0, items, isEnd: true })
  for (const category of ['fetch', 'llm']) {
    const rooms = [{ kinds: ['pipeline:p'], categories: [category] }]
    const { tasks, now } = await store.claim({ worker: 'w', leaseMs: 30_000, limit: ITEMS, rooms, isIdle: true })
    await store.settle(
      tasks.map(({ id, token, payload }) => {
        const attempt = { attempt: 1, startedAt: now, endedAt: now + 10, worker: 'w' }
        if (category === 'fetch') {
          return { id, token, attempt, outcome: { type: 'advanced', to: 'llm', value: payload, keep: false } as const }
        }
        if (Number(payload) % 100 > 0) return { id, token, attempt, outcome: { type: 'succeeded' } as const }
        const outcome = { type: 'dead', reason: 'final_error' } as const
        return { id, token, outcome, attempt: { ...attempt, verdict: VERDICT, error: 'Error: poison' } }
      }),
    )
  }
  await store.runs.check('r')
  return store
}

it('reads all pages of a run, and tells how its stages fared', async () => {
  const store = await finishedRun()
  const progress: number[] = []
  const report = await reportRun(store, 'r', { onProgress: items => progress.push(items) })
  expect(progress.at(-1)).toBe(ITEMS)
  expect(progress.length).toBeGreaterThan(1)
  expect(report).toMatchObject({
    id: 'r',
    status: 'completed',
    total: ITEMS,
    counts: { succeeded: 1188, dead: 12 },
    successRate: 0.99,
    stageReports: [
      { stage: 'fetch', passed: 1200, dead: 0, reliability: 1, attempts: 1200 },
      { stage: 'llm', passed: 1188, dead: 12, reliability: 0.99, attempts: 1200, retries: 0 },
    ],
    retries: [{ retries: 0, items: 1200, dead: 12 }],
    attempts: [{ attempt: 1, made: 2400, succeeded: 2388 }],
    errors: [{ stage: 'llm', code: 'http_422', type: 'client_error', failures: 12, dead: 12 }],
  })
  expect(JSON.parse(JSON.stringify(report))).toEqual(report)
})

it('knows no run of that name, and stops when it is told to', async () => {
  const store = await finishedRun()
  expect(await reportRun(store, 'other')).toBeUndefined()
  const stop = new AbortController()
  const reading = reportRun(store, 'r', { signal: stop.signal, onProgress: () => stop.abort() })
  await expect(reading).rejects.toThrow('aborted')
})

it('adds up what attempts have used: also those that failed, those of dead items, and shares of batches', async () => {
  const store = new MemoryStore()
  const ask = (n: number, { attempt, used }: StageContext) => {
    used({ tokens: 100, dollars: 0.1 })
    if (n === 1 && attempt === 1) throw Object.assign(new Error('busy'), { status: 503 })
    if (n === 2) throw new FinalError('refused')
    return n
  }
  const line = pipeline(
    'line',
    stage('ask', ask, { policy: { attempts: 2, backoff: { base: '1ms' } } }),
    stage('plain', (n: number) => n),
    batch(
      'embed',
      (inputs: readonly number[], { used }) => {
        used({ tokens: 10 })
        return [...inputs]
      },
      { size: 3, within: '1m' },
    ),
  )
  const { run } = await line.run([1, 2, 3, 4], { store })
  const report = await reportRun(store, run)
  expect(report?.counts).toMatchObject({ succeeded: 3, dead: 1 })
  expect(report?.stageReports.map(({ stage, used }) => [stage, used])).toEqual([
    ['ask', { tokens: 500, dollars: 0.5 }],
    ['plain', {}],
    ['embed', { tokens: 10 }],
  ])
  expect(report?.used).toEqual({ tokens: 510, dollars: 0.5 })
})
