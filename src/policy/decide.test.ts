import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { advance, allowance, begin, type Circumstances, decide, decideLoss, refusal } from './decide.js'
import { policy } from './parse.js'
import type { Decision, History, Policy, PolicyInput, Verdict } from './policy.js'
import { identityRandom } from './random.js'

const NOW = 1_700_000_000_000
const RETRYABLE: Verdict = { class: 'retryable', code: 'ECONNRESET' }
const FINAL: Verdict = { class: 'final', code: 'http_404' }
const LIMITED: Verdict = { class: 'rate_limited', code: 'http_429' }
const waitFor = (retryAfterMs: number): Verdict => ({ ...LIMITED, class: 'rate_limited', retryAfterMs })

/** Exponential from 100 ms to a second, without jitter, unless it says otherwise. */
const plain = (input: PolicyInput = {}) => policy({ backoff: { base: 100, max: 1000 }, jitter: 'none', ...input })

/** A decision on the failure of work that began now. */
function decideOn(
  input: PolicyInput,
  verdict: Verdict,
  { history = {}, ...circumstances }: Partial<Circumstances> & { history?: Partial<History> } = {},
): Decision {
  return decide(plain(input), { ...begin(NOW), ...history }, verdict, { now: NOW, random: 0.5, ...circumstances })
}

const retryIn = (delayMs: number): Decision => ({ action: 'retry', delayMs, at: NOW + delayMs })
const deferFor = (delayMs: number): Decision => ({ action: 'defer', delayMs, at: NOW + delayMs })
const giveUp = (reason: string) => ({ action: 'give_up', reason })

describe('the stop rules', () => {
  const rules = ['aborted', 'final_error', 'attempts_exhausted', 'ttl_expired', 'deadline_passed', 'budget_empty']

  it.each([...rules.entries()])('stand in their order: number %i is %s', (index, reason) => {
    const holds = (rule: number) => rule >= index // this rule and all that come after it
    const decision = decideOn(
      { attempts: holds(2) ? 1 : 2, ttl: holds(3) ? 0 : undefined },
      index <= 1 ? FINAL : RETRYABLE,
      { history: { deadline: holds(4) ? NOW : undefined }, aborted: holds(0), budgetEmpty: holds(5) },
    )
    expect(decision).toEqual(giveUp(reason))
  })

  it('let work go on when none of them holds', () => {
    expect(decideOn({ attempts: 2 }, RETRYABLE, { aborted: false, budgetEmpty: false })).toEqual(retryIn(100))
  })
})

describe('attempts', () => {
  it('are calls in total: with 3, the third failure ends the work', () => {
    const decided = (attempts: number) => decideOn({ attempts: 3 }, RETRYABLE, { history: { attempts } })
    expect([decided(0), decided(1), decided(2)]).toEqual([retryIn(100), retryIn(200), giveUp('attempts_exhausted')])
  })

  it('end the work when more of them are on record than the policy now allows', () => {
    expect(decideOn({ attempts: 3 }, RETRYABLE, { history: { attempts: 8 } })).toEqual(giveUp('attempts_exhausted'))
  })
})

describe('a delay that the code of the work asks for', () => {
  it('goes before the backoff, and after the wait of a rate limit', () => {
    expect(decideOn({}, RETRYABLE, { delayMs: 7 })).toEqual(retryIn(7))
    expect(decideOn({}, RETRYABLE, { delayMs: 0 })).toEqual(retryIn(0))
    expect(decideOn({}, LIMITED, { delayMs: 7 })).toEqual(retryIn(7))
    expect(decideOn({}, waitFor(50), { delayMs: 7 })).toEqual(retryIn(50))
  })

  it('does not help where the work is over', () => {
    expect(decideOn({ attempts: 1 }, RETRYABLE, { delayMs: 7 })).toEqual(giveUp('attempts_exhausted'))
    expect(decideOn({ ttl: 7 }, RETRYABLE, { delayMs: 7 })).toEqual(giveUp('ttl_expired'))
    expect(decideOn({ ttl: 8 }, RETRYABLE, { delayMs: 7 })).toEqual(retryIn(7))
  })
})

describe('losses', () => {
  const lost = (input: PolicyInput, history: Partial<History>, now = NOW) =>
    decideLoss(plain(input), { ...begin(NOW), ...history }, now)

  it('are counted by themselves: with 3, the third worker that dies ends the work', () => {
    const decided = (losses: number) => lost({ losses: 3 }, { losses })
    expect([decided(0), decided(1), decided(2)]).toEqual([retryIn(0), retryIn(0), giveUp('losses_exhausted')])
    expect(lost({}, {})).toEqual(retryIn(0))
  })

  it('cost no attempt: work on its last one runs again', () => {
    expect(lost({ attempts: 1 }, {})).toEqual(retryIn(0))
    expect(lost({ attempts: 3 }, { attempts: 2 })).toEqual(retryIn(0))
  })

  it('do not outlive the time to live', () => {
    expect(lost({ ttl: 100 }, { attempts: 1 }, NOW + 100)).toEqual(giveUp('ttl_expired'))
  })
})

describe('an attempt that starts late', () => {
  const refused = (input: PolicyInput, history: Partial<History>, now: number) =>
    refusal(plain(input), { ...begin(NOW), ...history }, now)

  it('is refused once the time to live is over, the first one included', () => {
    expect(refused({ ttl: 100 }, {}, NOW + 99)).toBeUndefined()
    expect(refused({ ttl: 100 }, {}, NOW + 100)).toBe('ttl_expired')
    expect(refused({ ttl: 100 }, { attempts: 1 }, NOW + 100)).toBe('ttl_expired')
    expect(refused({}, { attempts: 1 }, NOW + 1e12)).toBeUndefined()
  })

  it('with a time to live of 0 may start whenever it is the first', () => {
    expect(refused({ ttl: 0 }, {}, NOW + 1e9)).toBeUndefined()
    expect(refused({ ttl: 0 }, { attempts: 1 }, NOW)).toBe('ttl_expired')
    expect(refused({ ttl: 0 }, { deferrals: 1 }, NOW)).toBe('ttl_expired')
  })

  it('is refused at its deadline', () => {
    expect(refused({}, { deadline: NOW + 5 }, NOW + 4)).toBeUndefined()
    expect(refused({}, { deadline: NOW + 5 }, NOW + 5)).toBe('deadline_passed')
  })
})

describe('the time to live', () => {
  it('of 0 means one call', () => {
    expect(decideOn({ ttl: 0, backoff: 'none' }, RETRYABLE)).toEqual(giveUp('ttl_expired'))
  })

  it('lets the next attempt start up to a millisecond before it is over', () => {
    expect(decideOn({ ttl: 101 }, RETRYABLE)).toEqual(retryIn(100))
    expect(decideOn({ ttl: 100 }, RETRYABLE)).toEqual(giveUp('ttl_expired'))
  })

  it('runs from the start of the work', () => {
    const history = { startedAt: NOW - 900 }
    expect(decideOn({ ttl: 1001 }, RETRYABLE, { history })).toEqual(retryIn(100))
    expect(decideOn({ ttl: 1000 }, RETRYABLE, { history })).toEqual(giveUp('ttl_expired'))
    expect(decideOn({ ttl: 500, backoff: 'none' }, RETRYABLE, { history })).toEqual(giveUp('ttl_expired'))
  })

  it('is not outlived by a rate limit that asks for a longer wait', () => {
    expect(decideOn({ ttl: '1m', deferrals: 5 }, waitFor(59_999))).toEqual(deferFor(59_999))
    expect(decideOn({ ttl: '1m', deferrals: 5 }, waitFor(60_000))).toEqual(giveUp('ttl_expired'))
  })
})

describe('a deadline', () => {
  it('keeps an attempt from starting then or later, whatever the policy says', () => {
    expect(decideOn({ ttl: '1h' }, RETRYABLE, { history: { deadline: NOW + 101 } })).toEqual(retryIn(100))
    expect(decideOn({ ttl: '1h' }, RETRYABLE, { history: { deadline: NOW + 100 } })).toEqual(giveUp('deadline_passed'))
  })
})

describe('a rate limit', () => {
  it('with a hint is a deferral until then, not capped by the backoff', () => {
    expect(decideOn({ deferrals: 1 }, waitFor(90_000))).toEqual(deferFor(90_000))
  })

  it('with a hint is not judged by the attempts while deferrals are left', () => {
    const history = { attempts: 2, deferrals: 99 }
    expect(decideOn({ attempts: 3, deferrals: 100 }, waitFor(5), { history })).toEqual(deferFor(5))
  })

  it('with a hint counts as an attempt once the deferrals are used up, and the hint still sets the delay', () => {
    const history = { attempts: 1, deferrals: 100 }
    expect(decideOn({ attempts: 3, deferrals: 100 }, waitFor(90_000), { history })).toEqual(retryIn(90_000))
    expect(decideOn({ attempts: 2, deferrals: 100 }, waitFor(90_000), { history })).toEqual(
      giveUp('attempts_exhausted'),
    )
  })

  it('with a hint counts as an attempt where the policy has no deferrals', () => {
    expect(decideOn({ attempts: 2 }, waitFor(90_000))).toEqual(retryIn(90_000))
    expect(decideOn({ attempts: 1 }, waitFor(90_000))).toEqual(giveUp('attempts_exhausted'))
  })

  it('with a hint of 0 is one with a hint', () => {
    expect(decideOn({ attempts: 1, deferrals: 1 }, waitFor(0))).toEqual(deferFor(0))
  })

  it('without a hint waits by the backoff and counts', () => {
    const history = { attempts: 1 }
    expect(decideOn({ attempts: 3, deferrals: 100 }, LIMITED, { history })).toEqual(retryIn(200))
    expect(decideOn({ attempts: 2, deferrals: 100 }, LIMITED, { history })).toEqual(giveUp('attempts_exhausted'))
  })

  it('alone has a hint: no other failure is deferred by one', () => {
    const stray = { ...RETRYABLE, retryAfterMs: 5 } as Verdict
    expect(decideOn({ deferrals: 1 }, stray)).toEqual(retryIn(100))
    expect(advance(begin(NOW), stray, retryIn(100))).toMatchObject({ attempts: 1, previousDelayMs: 100 })
  })

  it('that is a deferral still stops for the caller, the deadline and the budget', () => {
    const deferrals = 5
    expect(decideOn({ deferrals }, waitFor(100), { aborted: true })).toEqual(giveUp('aborted'))
    expect(decideOn({ deferrals }, waitFor(100), { history: { deadline: NOW + 100 } })).toEqual(
      giveUp('deadline_passed'),
    )
    expect(decideOn({ deferrals }, waitFor(100), { budgetEmpty: true })).toEqual(giveUp('budget_empty'))
  })
})

describe('the history', () => {
  it('of work that begins has nothing in it but its times', () => {
    expect(begin(NOW)).toEqual({ attempts: 0, deferrals: 0, startedAt: NOW })
    expect(begin(NOW, NOW + 5)).toEqual({ attempts: 0, deferrals: 0, startedAt: NOW, deadline: NOW + 5 })
  })

  const before: History = { attempts: 2, deferrals: 3, startedAt: NOW, deadline: NOW + 1e6, previousDelayMs: 70 }

  it.each<[string, Verdict, Decision, Partial<History>]>([
    ['counts a retry, and keeps its delay for the next', RETRYABLE, retryIn(80), { attempts: 3, previousDelayMs: 80 }],
    ['counts a rate limit without a hint as a retry', LIMITED, retryIn(80), { attempts: 3, previousDelayMs: 80 }],
    ['counts a rate limit that costs an attempt, not its hint', waitFor(900), retryIn(900), { attempts: 3 }],
    ['counts a deferral as nothing else', waitFor(900), deferFor(900), { deferrals: 4 }],
    [
      'counts the attempt after which it was given up',
      FINAL,
      { action: 'give_up', reason: 'final_error' },
      { attempts: 3 },
    ],
    ['counts it after a hint too', waitFor(9), { action: 'give_up', reason: 'ttl_expired' }, { attempts: 3 }],
  ])('%s', (_, verdict, decision, change) => {
    expect(advance(before, verdict, decision)).toEqual({ ...before, ...change })
  })

  it('starts afresh when work is redriven: attempts, deferrals and time to live', () => {
    const rules = plain({ attempts: 2, deferrals: 1, ttl: '1s' })
    const worn: History = { attempts: 1, deferrals: 1, startedAt: NOW - 5000 }
    const circumstances = { now: NOW, random: 0 }
    expect(decide(rules, worn, waitFor(10), circumstances)).toEqual(giveUp('attempts_exhausted'))
    expect(decide(rules, begin(NOW), waitFor(10), circumstances)).toEqual(deferFor(10))
    expect(decide(rules, begin(NOW), RETRYABLE, circumstances)).toEqual(retryIn(100))
  })
})

describe('the allowance of an attempt', () => {
  it.each<[string, PolicyInput, number | undefined, number]>([
    ['is without limit by default', {}, undefined, Infinity],
    ['is its timeout', { timeout: '5s' }, undefined, 5000],
    ['is cut short by a deadline', { timeout: '5s' }, NOW + 3000, 3000],
    ['is not stretched by a deadline', { timeout: '5s' }, NOW + 9000, 5000],
    ['is what is left until a deadline', {}, NOW + 3000, 3000],
    ['is nothing after a deadline', { timeout: '5s' }, NOW, 0],
    [
      'is not cut short by the time to live, which only keeps attempts from starting',
      { ttl: '1s' },
      undefined,
      Infinity,
    ],
  ])('%s', (_, input, deadline, expected) => {
    expect(allowance(plain(input), begin(NOW - 900, deadline), NOW)).toBe(expected)
  })
})

describe('any work under any policy', () => {
  /** The record of a failed call, enough to repeat its decision. */
  interface Step {
    readonly startedAt: number
    readonly history: History
    readonly verdict: Verdict
    readonly circumstances: Circumstances
    readonly decision: Decision
  }

  /** Runs work that always fails, in the way of each verdict in turn and over again, until it is given up. */
  function simulate(policy: Policy, { verdicts, runMs, deadline, identity }: Situation): Step[] {
    const steps: Step[] = []
    let history = begin(NOW, deadline)
    let startedAt = NOW
    for (;;) {
      const verdict = verdicts[steps.length % verdicts.length] as Verdict
      const now = startedAt + (runMs[steps.length % runMs.length] ?? 0)
      const circumstances = { now, random: identityRandom(identity, history.attempts + 1) }
      const decision = decide(policy, history, verdict, circumstances)
      steps.push({ startedAt, history, verdict, circumstances, decision })
      history = Object.freeze(advance(history, verdict, decision))
      if (decision.action === 'give_up') return steps
      startedAt = decision.at
    }
  }

  interface Situation {
    readonly verdicts: readonly Verdict[]
    readonly runMs: readonly number[]
    readonly deadline: number | undefined
    readonly identity: string
  }

  const few = fc.integer({ min: 0, max: 12 })
  const ms = fc.integer({ min: 0, max: 5000 })
  const maybe = <T>(value: fc.Arbitrary<T>) => fc.option(value, { nil: undefined })
  const kinds = fc.constantFrom('none', 'fixed', 'linear', 'exponential', 'decorrelated') as fc.Arbitrary<
    'none' | 'fixed' | 'linear' | 'exponential' | 'decorrelated'
  >

  const formulas = fc
    .record({ kind: kinds, base: fc.integer({ min: 0, max: 300 }), factor: fc.double({ min: 1, max: 4, noNaN: true }) })
    .map(({ kind, base, factor }): PolicyInput['backoff'] => ({
      kind,
      ...(kind !== 'none' && { base }),
      ...(kind !== 'none' && kind !== 'fixed' && { max: 1000 }),
      ...(kind === 'exponential' && { factor }),
    }))
  const backoffs = fc.oneof(formulas, fc.array(fc.integer({ min: 0, max: 300 }), { minLength: 1, maxLength: 5 }))
  const policies = fc
    .record({
      attempts: fc.integer({ min: 1, max: 12 }),
      deferrals: few,
      backoff: backoffs,
      jitter: fc.constantFrom<PolicyInput['jitter']>('none', 'full', 'equal', { kind: 'proportional', ratio: 0.3 }),
      ttl: maybe(ms),
      timeout: maybe(fc.integer({ min: 1, max: 5000 })),
    })
    .map(input => policy({ ...input, jitter: isRandom(input.backoff) ? undefined : input.jitter }))
  const passing = fc.oneof(fc.constantFrom(RETRYABLE, LIMITED), ms.map(waitFor))
  const situations = fc.record({
    verdicts: fc.array(fc.oneof({ weight: 20, arbitrary: passing }, fc.constant(FINAL)), {
      minLength: 1,
      maxLength: 30,
    }),
    runMs: fc.array(ms, { minLength: 1, maxLength: 5 }),
    deadline: maybe(fc.integer({ min: NOW, max: NOW + 20_000 })),
    identity: fc.string(),
  })

  it('is called at most attempts + deferrals times, and each is counted on its own', () => {
    fc.assert(
      fc.property(policies, situations, (policy, situation) => {
        const steps = simulate(policy, situation)
        const last = steps.at(-1)?.decision
        const deferrals = steps.filter(({ decision }) => decision.action === 'defer').length
        expect(last?.action).toBe('give_up')
        expect(deferrals).toBeLessThanOrEqual(policy.deferrals)
        expect(steps.length - deferrals).toBeLessThanOrEqual(policy.attempts)
      }),
      { numRuns: 1000 },
    )
  })

  it('is called exactly attempts + deferrals times when a rate limit never passes and nothing else ends it', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 30 }), fc.nat(30), ms, (attempts, deferrals, hintMs) => {
        const situation = { verdicts: [waitFor(hintMs)], runMs: [0], deadline: undefined, identity: 'a' }
        expect(simulate(policy({ attempts, deferrals }), situation)).toHaveLength(attempts + deferrals)
      }),
    )
  })

  it('never starts a second time once its time to live or its deadline is over', () => {
    fc.assert(
      fc.property(policies, situations, (policy, situation) => {
        for (const { startedAt } of simulate(policy, situation).slice(1)) {
          expect(startedAt).toBeLessThan(NOW + (policy.ttl ?? Infinity))
          expect(startedAt).toBeLessThan(situation.deadline ?? Infinity)
        }
      }),
      { numRuns: 1000 },
    )
  })

  it('is called once with a time to live of 0', () => {
    fc.assert(
      fc.property(policies, situations, (some, situation) => {
        expect(simulate(policy({ ...some, ttl: 0 }), situation)).toHaveLength(1)
      }),
    )
  })

  it('waits for whole milliseconds, from the failure on', () => {
    fc.assert(
      fc.property(policies, situations, (policy, situation) => {
        for (const { decision, circumstances } of simulate(policy, situation)) {
          if (decision.action === 'give_up') continue
          expect(Number.isSafeInteger(decision.delayMs) && decision.delayMs >= 0).toBe(true)
          expect(decision.at).toBe(circumstances.now + decision.delayMs)
        }
      }),
    )
  })

  it('gets the same decisions again from its record, also after a trip through JSON', () => {
    fc.assert(
      fc.property(policies, situations, (rules, situation) => {
        const steps = simulate(rules, situation)
        const reread = policy(throughJson(rules))
        let folded = throughJson(begin(NOW, situation.deadline))
        for (const { history, verdict, circumstances, decision } of throughJson(steps)) {
          expect(decide(reread, history, verdict, circumstances)).toEqual(decision)
          expect(decide(reread, folded, verdict, circumstances)).toEqual(decision)
          folded = throughJson(advance(folded, verdict, decision))
        }
      }),
      { numRuns: 300 },
    )
  })

  it('leaves its arguments as they are, and answers the same when asked again', () => {
    fc.assert(
      fc.property(policies, situations, (policy, situation) => {
        for (const { history, verdict, circumstances, decision } of simulate(policy, situation)) {
          const args = [policy, Object.freeze(history), Object.freeze(verdict), Object.freeze(circumstances)] as const
          expect(decide(...args)).toEqual(decision)
        }
      }),
    )
  })

  it('has the same retries with deferrals in between as without them', () => {
    fc.assert(
      fc.property(policies, situations, (some, situation) => {
        const patient = policy({ ...some, ttl: undefined, deferrals: 1000 })
        const isDeferral = (verdict: Verdict) => verdict.class === 'rate_limited' && verdict.retryAfterMs !== undefined
        const others = situation.verdicts.filter(verdict => !isDeferral(verdict))
        fc.pre(others.length > 0)
        const retries = (verdicts: readonly Verdict[]) =>
          simulate(patient, { ...situation, deadline: undefined, verdicts }).flatMap(({ decision }) =>
            decision.action === 'retry' ? decision.delayMs : [],
          )
        expect(retries(situation.verdicts)).toEqual(retries(others))
      }),
    )
  })

  function isRandom(backoff: PolicyInput['backoff']): boolean {
    return typeof backoff === 'object' && 'kind' in backoff && backoff.kind === 'decorrelated'
  }

  function throughJson<T>(value: T): T {
    return JSON.parse(JSON.stringify(value))
  }
})
