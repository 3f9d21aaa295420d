import { describe, expect, it } from 'vitest'
import { begin, type PolicyInput, policy, RetryableError } from '../policy/index.js'
import type { WorkEvent } from '../telemetry/index.js'
import { fakeClock } from '../testing/index.js'
import { ActiveAttempt, type Driver } from './active-attempt.js'
import type { End, Returned } from './plan.js'

/** An attempt at work that began now, on a clock that the test moves, with its ends and events. */
function attemptAt(call: Driver['call'], input: PolicyInput = {}, more: Partial<Driver> = {}) {
  const clock = fakeClock()
  const ends: End[] = []
  const events: WorkEvent[] = []
  const driver: Driver = {
    seed: 'work-1',
    policy: policy({ backoff: { base: 100 }, jitter: 'none', ...input }),
    history: begin(clock.now()),
    now: () => clock.now(),
    work: () => ({ kind: 'task', id: 'work-1', name: 'work' }),
    traceparent: undefined,
    isFirst: true,
    call,
    returned: (result): Returned => ({ type: 'succeeded', value: JSON.stringify(result) }),
    ended: end => ends.push(end),
    ...more,
  }
  const attempt = new ActiveAttempt(driver, { clock, sink: event => events.push(event) })
  return { clock, attempt, ends, types: () => events.map(({ type }) => type) }
}

describe('an attempt', () => {
  it('ends with what the handler returns', async () => {
    const { clock, attempt, ends, types } = attemptAt(async () => 42)
    attempt.start()
    await clock.advance(0)
    expect(ends).toEqual([{ type: 'succeeded', value: '42' }])
    expect(types()).toEqual(['attempt_started', 'attempt_succeeded'])
  })

  it.each([
    [
      'throws',
      () => {
        throw new RetryableError('down')
      },
    ],
    [
      'rejects',
      async () => {
        throw new RetryableError('down')
      },
    ],
  ])("ends with the kernel's judgement when the handler %s", async (_, call) => {
    const { clock, attempt, ends, types } = attemptAt(call)
    attempt.start()
    await clock.advance(0)
    expect(ends).toMatchObject([{ type: 'failed', verdict: { class: 'retryable' }, decision: { delayMs: 100 } }])
    expect(types()).toEqual(['attempt_started', 'retry_scheduled'])
  })

  it('has failed when its result cannot be converted', async () => {
    const returned = () => {
      throw new TypeError('no JSON')
    }
    const { clock, attempt, ends } = attemptAt(() => 42, {}, { returned })
    attempt.start()
    await clock.advance(0)
    expect(ends).toMatchObject([{ type: 'failed', verdict: { class: 'final', code: 'TypeError' } }])
  })

  it('ends once: a handler that settles after its timeout changes nothing', async () => {
    let finish = (_: number) => {}
    const { clock, attempt, ends, types } = attemptAt(() => new Promise(resolve => (finish = resolve)), {
      timeout: '1s',
    })
    attempt.start()
    await clock.advance('1s')
    finish(42)
    await clock.advance(0)
    expect(ends).toMatchObject([{ type: 'failed', verdict: { code: 'timeout' } }])
    expect(attempt.signal.reason).toMatchObject({ code: 'timeout' })
    expect(types()).toEqual(['attempt_started', 'timed_out', 'retry_scheduled'])
  })

  it('that is stopped aborts its signal, ends uncounted and tells nobody', async () => {
    const { clock, attempt, ends, types } = attemptAt(() => new Promise(() => {}), { timeout: '1s' })
    attempt.start()
    attempt.stop('enough')
    expect(ends).toEqual([{ type: 'stopped', reason: 'enough' }])
    expect([attempt.signal.reason, clock.timers, types()]).toEqual(['enough', 0, ['attempt_started']])
  })

  it('that would start too late is refused: the handler is not called', () => {
    let calls = 0
    const { attempt, ends, types } = attemptAt(() => calls++, { ttl: '1m' }, { history: begin(-1e9), now: () => 0 })
    attempt.start()
    expect([calls, ends, types()]).toEqual([0, [{ type: 'refused', reason: 'ttl_expired' }], ['gave_up']])
  })
})
