import type { GiveUpReason, Verdict } from 'redrive/policy'
import {
  type AuditRecord,
  auditRecord,
  fanOut,
  type GaveUp,
  type Logger,
  logTo,
  memoryAudit,
  ndjsonAudit,
  on,
  retryPatterns,
  type Sink,
  type Work,
  type WorkEvent,
} from 'redrive/telemetry'
import { fakeClock } from 'redrive/testing'
import { assertType, describe, expectTypeOf, it } from 'vitest'
import type {
  AttemptStarted,
  AttemptSucceeded,
  CollectionSwept,
  CoverageChecked,
  GateClosed,
  GateOpened,
  IdempotencyNotRecorded,
  IdempotencyUsed,
  LeaseLost,
  Overran,
  ResultNotKept,
  RetryScheduled,
  RunEnded,
  RunStarted,
  Skipped,
  SlotEnded,
  Superseded,
  SweepEnded,
  Swept,
  TimedOut,
} from '../../src/telemetry/work-events.js'

describe('an event', () => {
  it('narrows by its type, and every type is covered', () => {
    const event = {} as WorkEvent
    expectTypeOf(event.work).toEqualTypeOf<Work>()
    expectTypeOf(event.at).toEqualTypeOf<number>()
    switch (event.type) {
      case 'attempt_started':
        return expectTypeOf(event).toEqualTypeOf<AttemptStarted>()
      case 'attempt_succeeded':
        return expectTypeOf(event).toEqualTypeOf<AttemptSucceeded>()
      case 'result_not_kept':
        return expectTypeOf(event).toEqualTypeOf<ResultNotKept>()
      case 'skipped':
        return expectTypeOf(event).toEqualTypeOf<Skipped>()
      case 'run_started':
        return expectTypeOf(event).toEqualTypeOf<RunStarted>()
      case 'run_ended':
        return expectTypeOf(event).toEqualTypeOf<RunEnded>()
      case 'timed_out':
        return expectTypeOf(event).toEqualTypeOf<TimedOut>()
      case 'retry_scheduled':
      case 'deferred':
        return expectTypeOf(event).toEqualTypeOf<RetryScheduled>()
      case 'gave_up':
        return expectTypeOf(event).toEqualTypeOf<GaveUp>()
      case 'lease_lost':
        return expectTypeOf(event).toEqualTypeOf<LeaseLost>()
      case 'gate_opened':
        return expectTypeOf(event).toEqualTypeOf<GateOpened>()
      case 'gate_closed':
        return expectTypeOf(event).toEqualTypeOf<GateClosed>()
      case 'slot_ended':
        return expectTypeOf(event).toEqualTypeOf<SlotEnded>()
      case 'idempotency_hit':
      case 'idempotency_recorded':
        return expectTypeOf(event).toEqualTypeOf<IdempotencyUsed>()
      case 'idempotency_not_recorded':
        return expectTypeOf(event).toEqualTypeOf<IdempotencyNotRecorded>()
      case 'overrun_began':
      case 'overrun_ended':
      case 'abandoned':
        return expectTypeOf(event).toEqualTypeOf<Overran>()
      case 'swept':
        return expectTypeOf(event).toEqualTypeOf<Swept>()
      case 'superseded':
        return expectTypeOf(event).toEqualTypeOf<Superseded>()
      case 'collection_swept':
        return expectTypeOf(event).toEqualTypeOf<CollectionSwept>()
      case 'sweep_ended':
        return expectTypeOf(event).toEqualTypeOf<SweepEnded>()
      case 'coverage_checked':
        return expectTypeOf(event).toEqualTypeOf<CoverageChecked>()
      default:
        return expectTypeOf(event).toEqualTypeOf<never>()
    }
  })

  it('has no field of another', () => {
    const event = {} as WorkEvent
    // @ts-expect-error only some events have a delay
    void event.delayMs
    // @ts-expect-error an event about a key has no attempt
    if (event.type === 'idempotency_hit') void event.attempt
  })
})

describe('on()', () => {
  it('gives each handler the event of its type', () => {
    const sink = on({
      attempt_started: event => expectTypeOf(event.deferrals).toEqualTypeOf<number>(),
      retry_scheduled: event => {
        expectTypeOf(event).toExtend<RetryScheduled>()
        expectTypeOf(event.type).toEqualTypeOf<'retry_scheduled'>()
        expectTypeOf(event.delayMs).toEqualTypeOf<number>()
        expectTypeOf(event.failure).toEqualTypeOf<unknown>()
        expectTypeOf(event.verdict).toEqualTypeOf<Verdict>()
      },
      deferred: event => expectTypeOf(event.type).toEqualTypeOf<'deferred'>(),
      gave_up: ({ reason }) => expectTypeOf(reason).toEqualTypeOf<GiveUpReason | 'breaker_open'>(),
      idempotency_hit: ({ key }) => expectTypeOf(key).toEqualTypeOf<string>(),
    })
    expectTypeOf(sink).toEqualTypeOf<Sink>()
  })

  it('takes handlers that return anything, and async ones', () => {
    const list: WorkEvent[] = []
    on({ gave_up: event => list.push(event), timed_out: async () => {} })
  })

  it('knows no other types', () => {
    // @ts-expect-error it is `gave_up`
    on({ gaveUp: () => {} })
    // @ts-expect-error a success has no reason
    on({ attempt_succeeded: ({ reason }) => reason })
  })
})

describe('a sink', () => {
  it('is a function, asynchronous or not', () => {
    assertType<Sink>(() => {})
    assertType<Sink>(async () => {})
    assertType<Sink>(event => void event.work)
    assertType<Sink>(fanOut(() => {}, memoryAudit()))
  })

  it('is what each of ours is', () => {
    assertType<Sink>(memoryAudit({ max: 10 }))
    assertType<Sink>(ndjsonAudit('audit.ndjson', { maxWaitingBytes: 1024 }))
    assertType<Sink>(retryPatterns({ alertAbovePerMinute: 100, clock: fakeClock() }))
    expectTypeOf(logTo).returns.toEqualTypeOf<Sink>()
    expectTypeOf(memoryAudit().records).toEqualTypeOf<readonly AuditRecord[]>()
    expectTypeOf(ndjsonAudit('audit.ndjson').close()).toEqualTypeOf<Promise<void>>()
    expectTypeOf(retryPatterns().summary().ANY?.successRate).toEqualTypeOf<number | undefined>()
  })

  it('that logs takes a logger as pino has it', () => {
    // The overloads of pino's methods: fields and a message, or a message alone.
    interface LogFn {
      (fields: object, message?: string, ...args: unknown[]): void
      (message: string, ...args: unknown[]): void
    }
    const pino = {} as { debug: LogFn; info: LogFn; warn: LogFn; error: LogFn; fatal: LogFn; level: string }
    assertType<Logger>(pino)
    logTo(pino)
    // @ts-expect-error a logger has all four levels
    logTo({ info: () => {} })
  })
})

describe('an audit record', () => {
  it('narrows by its type, and not every event has one', () => {
    const record = auditRecord({} as WorkEvent)
    expectTypeOf(record).toEqualTypeOf<AuditRecord | undefined>()
    switch (record?.event_type) {
      case 'retry_attempt':
        return expectTypeOf(record.delay_seconds).toEqualTypeOf<number>()
      case 'retry_exhausted':
        return expectTypeOf(record.total_attempts).toEqualTypeOf<number>()
      case 'timeout_occurred':
        return expectTypeOf(record.timeout_code).toEqualTypeOf<string>()
      case 'idempotency':
        return expectTypeOf(record.action).toEqualTypeOf<'hit' | 'record'>()
      default:
        return expectTypeOf(record).toEqualTypeOf<undefined>()
    }
  })
})
