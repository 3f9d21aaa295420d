import { describe, expect, it } from 'vitest'
import type { LedgerRow, TaskRecord } from '../store/index.js'
import { RunTally } from './run-tally.js'

const TIMEOUT = { class: 'retryable', code: 'timeout' } as const
const POISON = { class: 'final', code: 'http_422' } as const

function row(category: string, outcome: LedgerRow['outcome'], more: Partial<LedgerRow> = {}): LedgerRow {
  const times = { startedAt: 1000, endedAt: 1010 }
  return {
    sequence: 1,
    attempt: 1,
    worker: 'w',
    delayMs: undefined,
    reason: undefined,
    category,
    outcome,
    ...times,
    ...more,
  }
}

function tallyOf(...items: [Pick<TaskRecord, 'status' | 'category' | 'errorCode'>, LedgerRow[]][]): RunTally {
  const tally = new RunTally(['fetch', 'llm', 'filter'])
  for (const [item, history] of items) tally.add({ item, history })
  return tally
}

const DONE = { status: 'succeeded', category: 'filter', errorCode: undefined } as const

describe('a tally of a run', () => {
  it('reports every stage in its order, also those that nobody reached', () => {
    const [fetch, llm, filter] = tallyOf().stages()
    expect([fetch?.stage, llm?.stage, filter?.stage]).toEqual(['fetch', 'llm', 'filter'])
    expect(fetch).toMatchObject({ passed: 0, reliability: null, durations: { p50: null } })
  })

  it('counts retries per item over all stages, and the dead among them', () => {
    const tally = tallyOf(
      [DONE, [row('fetch', 'advanced'), row('llm', 'advanced'), row('filter', 'succeeded')]],
      [DONE, [row('fetch', 'retry'), row('fetch', 'advanced'), row('llm', 'retry'), row('filter', 'succeeded')]],
      [
        { status: 'dead', category: 'llm', errorCode: 'timeout' },
        [row('llm', 'retry'), row('llm', 'retry'), row('llm', 'dead')],
      ],
      [{ status: 'waiting', category: 'llm', errorCode: 'timeout' }, [row('llm', 'retry')]],
    )
    expect(tally.retries()).toEqual([
      { retries: 0, items: 1, dead: 0 },
      { retries: 2, items: 2, dead: 1 },
    ])
  })

  it('tells which attempts succeed: neither deferrals nor losses are attempts', () => {
    const tally = tallyOf(
      [DONE, [row('fetch', 'deferred'), row('fetch', 'lost'), row('fetch', 'advanced'), row('llm', 'skipped')]],
      [
        DONE,
        [
          row('fetch', 'retry'),
          row('fetch', 'dead', { attempt: 2 }),
          row('fetch', 'redriven', { attempt: 0 }),
          row('fetch', 'advanced'),
        ],
      ],
      [DONE, [row('fetch', 'retry'), row('fetch', 'advanced', { attempt: 2 })]],
    )
    expect(tally.yields()).toEqual([
      { attempt: 1, made: 5, succeeded: 3 },
      { attempt: 2, made: 2, succeeded: 1 },
    ])
    const [fetch] = tally.stages()
    expect(fetch).toMatchObject({
      passed: 3,
      attempts: 6,
      retries: 2,
      deferrals: 1,
      losses: 1,
      dead: 0,
      reliability: 1,
    })
  })

  it('counts the dead by the stage where they are now, so a redriven item counts once', () => {
    const dead = { status: 'dead', category: 'llm', errorCode: 'http_422' } as const
    const tally = tallyOf(
      [DONE, [row('fetch', 'advanced'), row('llm', 'advanced')]],
      [
        dead,
        [row('llm', 'dead', { verdict: POISON }), row('llm', 'redriven'), row('llm', 'dead', { verdict: POISON })],
      ],
      [DONE, [row('fetch', 'retry', { verdict: TIMEOUT }), row('fetch', 'advanced')]],
    )
    expect(tally.stages()[1]).toMatchObject({ stage: 'llm', passed: 1, dead: 1, reliability: 0.5 })
    expect(tally.errors()).toEqual([
      { stage: 'llm', code: 'http_422', type: 'client_error', failures: 2, dead: 1 },
      { stage: 'fetch', code: 'timeout', type: 'timeout', failures: 1, dead: 0 },
    ])
    expect(tally.errorTypes()).toEqual({
      rate_limit: 0,
      server_error: 0,
      client_error: 2,
      timeout: 1,
      network_error: 0,
      unknown: 0,
    })
  })

  it('does not grow with codes that are made of ids', () => {
    const tally = tallyOf(
      ...Array.from({ length: 3000 }, (_, i): [typeof DONE, LedgerRow[]] => [
        DONE,
        [row('llm', 'retry', { verdict: { class: 'retryable', code: `E${i}` } })],
      ]),
    )
    const errors = tally.errors()
    expect(errors.length).toBe(1001)
    expect(errors[0]).toMatchObject({ code: '(others)', failures: 2000 })
  })
})
