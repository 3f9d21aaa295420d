import {
  type Backoff,
  classify,
  type Decision,
  type Duration,
  decide,
  explain,
  extendPolicy,
  type GiveUpReason,
  type History,
  type Jitter,
  type Policy,
  type PolicyInput,
  policies,
  policy,
  TimeoutError,
  type Verdict,
} from 'redrive/policy'
import { assertType, describe, expectTypeOf, it } from 'vitest'

class DatabaseError extends Error {
  constructor(
    readonly table: string,
    readonly row: number,
  ) {
    super(table)
  }
}
abstract class DomainError extends Error {}

describe('a duration', () => {
  it('is milliseconds, or text with a unit', () => {
    assertType<Duration>(250)
    assertType<Duration>('250ms')
    assertType<Duration>('1.5s')
    assertType<Duration>('5m')
    assertType<Duration>('24h')
    assertType<Duration>('7d')
  })

  it('is nothing else', () => {
    // @ts-expect-error no unit
    assertType<Duration>('250')
    // @ts-expect-error not a number
    assertType<Duration>('fivem')
    // @ts-expect-error no such unit
    assertType<Duration>('2w')
    // @ts-expect-error two units
    assertType<Duration>('1h 30m')
    // @ts-expect-error any text
    assertType<Duration>('soon' as string)
  })
})

describe('a policy as people write it', () => {
  it('may be empty, or have any of its fields', () => {
    assertType<PolicyInput>({})
    assertType<PolicyInput>({
      attempts: 5,
      deferrals: 10,
      backoff: { kind: 'exponential', base: '250ms', factor: 2, max: '10s' },
      jitter: { kind: 'proportional', ratio: 0.1 },
      timeout: '2s',
      ttl: '30m',
      maxRetryAfter: '1h',
      retryOn: 'all',
      giveUpOn: [404],
    })
  })

  it('names its backoff and its jitter by kind, or spells them out', () => {
    assertType<PolicyInput>({ backoff: 'none', jitter: 'equal' })
    assertType<PolicyInput>({ backoff: { base: 100 }, jitter: { kind: 'full' } })
    // @ts-expect-error no such kind of backoff
    assertType<PolicyInput>({ backoff: 'quadratic' })
    // @ts-expect-error no such kind of jitter
    assertType<PolicyInput>({ jitter: { kind: 'some' } })
    // @ts-expect-error a part that no backoff has
    assertType<PolicyInput>({ backoff: { delay: 100 } })
  })

  it('lists statuses, ranges, codes, names and classes', () => {
    assertType<PolicyInput>({ retryOn: [429, '5xx', 'ECONNRESET', 'ValidationError'] })
    assertType<PolicyInput>({
      retryOn: [TimeoutError, DatabaseError, TypeError],
      giveUpOn: [DomainError, DOMException],
    })
    assertType<PolicyInput>({ retryOn: 'none' })
    // @ts-expect-error a predicate belongs to `classify`
    assertType<PolicyInput>({ retryOn: [(error: unknown) => error instanceof Error] })
    // @ts-expect-error not an error class
    assertType<PolicyInput>({ giveUpOn: [Date] })
    // @ts-expect-error nothing is given up on by that name
    assertType<PolicyInput>({ giveUpOn: 'all' })
  })

  it('has no other fields, and none of the wrong type', () => {
    // @ts-expect-error it is `attempts`
    policy({ retries: 3 })
    // @ts-expect-error a number
    policy({ attempts: '3' })
    // @ts-expect-error a duration
    policy({ timeout: '2 seconds' })
    // @ts-expect-error `classify` stands beside the policy
    policy({ classify: () => 'final' })
  })
})

describe('a policy', () => {
  it('is what policy() makes, and can be given wherever one is written', () => {
    const made = policy({ attempts: 5 })
    expectTypeOf(made).toEqualTypeOf<Policy>()
    expectTypeOf<Policy>().toExtend<PolicyInput>()
    assertType<PolicyInput>(made)
    assertType<PolicyInput>({ ...policies.task, attempts: 5 })
    expectTypeOf(policy(made)).toEqualTypeOf<Policy>()
    expectTypeOf(extendPolicy(made, { timeout: '5s' })).toEqualTypeOf<Policy>()
    expectTypeOf(policies.call).toEqualTypeOf<Policy>()
  })

  it('has its durations in milliseconds and its classes by name', () => {
    expectTypeOf<Policy['timeout']>().toEqualTypeOf<number | undefined>()
    expectTypeOf<Policy['ttl']>().toEqualTypeOf<number | undefined>()
    expectTypeOf<Policy['maxRetryAfter']>().toEqualTypeOf<number>()
    expectTypeOf<Policy['giveUpOn']>().toEqualTypeOf<readonly (string | number)[]>()
  })

  it('cannot be changed', () => {
    const made = policy()
    // @ts-expect-error read-only
    made.attempts = 5
    // @ts-expect-error read-only
    made.giveUpOn.push(404)
  })

  it('narrows by the kind of its backoff and its jitter', () => {
    const { backoff, jitter }: { backoff: Backoff; jitter: Jitter } = policy()
    if (backoff.kind === 'exponential') expectTypeOf(backoff.factor).toEqualTypeOf<number>()
    // @ts-expect-error a fixed backoff has no maximum
    if (backoff.kind === 'fixed') expectTypeOf(backoff.max).toEqualTypeOf<number>()
    if (jitter.kind === 'proportional') expectTypeOf(jitter.ratio).toEqualTypeOf<number>()
  })
})

describe('the kernel', () => {
  it('makes a verdict of a failure, and a decision of a verdict', () => {
    const verdict = classify(new Error('x'), policy(), 0)
    expectTypeOf(verdict).toEqualTypeOf<Verdict>()
    const history: History = { attempts: 0, deferrals: 0, startedAt: 0 }
    expectTypeOf(decide(policy(), history, verdict, { now: 0, random: 0 })).toEqualTypeOf<Decision>()
    // @ts-expect-error time and randomness come from outside
    decide(policy(), history, verdict, {})
    // @ts-expect-error the kernel takes what policy() made
    decide({ attempts: 3 }, history, verdict, { now: 0, random: 0 })
  })

  it('gives a verdict that narrows: only a rate limit has a hint', () => {
    const verdict = classify(429, policy(), 0)
    if (verdict.class === 'rate_limited') expectTypeOf(verdict.retryAfterMs).toEqualTypeOf<number | undefined>()
    // @ts-expect-error a final failure has no hint
    else expectTypeOf(verdict.retryAfterMs).toEqualTypeOf<number>()
  })

  it('gives a decision that narrows: a time, or a reason', () => {
    const decision = {} as Decision
    if (decision.action === 'give_up') expectTypeOf(decision.reason).toEqualTypeOf<GiveUpReason>()
    else expectTypeOf(decision.delayMs).toEqualTypeOf<number>()
  })

  it('explains a policy as written or as made', () => {
    expectTypeOf(explain({ attempts: 2 }).worstCaseMs).toEqualTypeOf<number | undefined>()
    expectTypeOf(explain(policies.call).words).toEqualTypeOf<string>()
  })
})
