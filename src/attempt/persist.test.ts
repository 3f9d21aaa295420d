import { describe, expect, it } from 'vitest'
import { FinalError, policy } from '../policy/index.js'
import { fakeClock } from '../testing/index.js'
import { persist, UNTIL_ANSWERED } from './persist.js'

/** A store that is away for the first calls. */
function away(times: number, failure: unknown = new Error('away')) {
  const calls = { count: 0 }
  const ask = async () => {
    if (calls.count++ < times) throw failure
    return 'answer'
  }
  return { ask, calls }
}

describe('asking until there is an answer', () => {
  it('asks again after an outage, and tells of its beginning and its end once', async () => {
    const clock = fakeClock()
    const told: string[] = []
    const outages = {
      began: () => told.push('began'),
      lasting: () => told.push('lasting'),
      ended: () => told.push('ended'),
    }
    const { ask, calls } = away(5)
    const asking = persist(ask, UNTIL_ANSWERED, { clock, outages })
    await clock.runAll()
    expect([await asking, calls.count, told]).toEqual(['answer', 6, ['began', 'ended']])
  })

  it('tells once of an outage that has lasted for a minute', async () => {
    const clock = fakeClock()
    const told: string[] = []
    const outages = { began: () => {}, lasting: (failure: unknown) => told.push(String(failure)), ended: () => {} }
    const asking = persist(away(40).ask, UNTIL_ANSWERED, { clock, outages })
    await clock.advance('59s')
    expect(told).toEqual([])
    await clock.runAll()
    expect([await asking, told]).toEqual(['answer', ['Error: away']])
  })

  it('rejects at once with a refusal that asking again cannot change', async () => {
    const { ask, calls } = away(5, new FinalError('never'))
    await expect(persist(ask, UNTIL_ANSWERED, { clock: fakeClock() })).rejects.toThrow('never')
    expect(calls.count).toBe(1)
  })

  it('rejects with the last failure once the policy gives up', async () => {
    const clock = fakeClock()
    const { ask, calls } = away(5)
    const asking = expect(persist(ask, policy({ attempts: 3 }), { clock })).rejects.toThrow('away')
    await clock.runAll()
    await asking
    expect(calls.count).toBe(3)
  })

  it('asks one last time when its signal aborts', async () => {
    const clock = fakeClock()
    const stop = new AbortController()
    const { ask, calls } = away(5)
    const asking = expect(persist(ask, UNTIL_ANSWERED, { clock, signal: stop.signal })).rejects.toThrow('away')
    await clock.advance(0)
    stop.abort()
    await asking
    expect(calls.count).toBe(2)
  })
})
