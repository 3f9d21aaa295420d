import { afterEach, beforeEach, expect, test } from 'vitest'
import { retry } from '../call/index.js'
import { fakeClock } from '../testing/index.js'
import { emit, fanOut, on, type Sink, sinkFailures } from './sink.js'
import type { WorkEvent } from './work-events.js'

const event: WorkEvent = {
  type: 'attempt_started',
  work: { kind: 'call', id: 'w-1', name: 'work' },
  at: 0,
  attempt: 1,
  maxAttempts: 3,
  deferrals: 0,
}

let warnings: (Error & { code?: string })[]
// Node's own listener prints; here the warnings are only collected.
const printers = process.listeners('warning')

beforeEach(() => {
  warnings = []
  process.removeAllListeners('warning')
  process.on('warning', warning => void warnings.push(warning))
})
afterEach(() => {
  process.removeAllListeners('warning')
  for (const printer of printers) process.on('warning', printer)
})

const settled = () => new Promise(resolve => setImmediate(resolve))

async function retriedTwice(sink: Sink): Promise<string> {
  const clock = fakeClock()
  let calls = 0
  const call = retry(
    () => {
      if (++calls < 3) throw new Error('boom')
      return 'done'
    },
    { attempts: 3 },
    { clock, sink },
  )
  await clock.runAll()
  return call
}

const diskFull = Object.assign(new Error('no space left'), { code: 'ENOSPC' })

for (const [how, broken] of [
  [
    'throws',
    () => {
      throw diskFull
    },
  ],
  ['rejects', () => Promise.reject(diskFull)],
] as const) {
  test(`a sink that ${how} does not touch the work, is counted for each event and warned of once`, async () => {
    const sink: Sink = () => broken()
    expect(await retriedTwice(sink)).toBe('done')
    await settled()
    // Three attempts started, two retries scheduled, one success.
    expect(sinkFailures(sink)).toBe(6)
    expect(warnings).toHaveLength(1)
    expect(warnings[0]?.code).toBe('sink_failed')
    expect(warnings[0]?.message).toBe(`The sink 'sink' failed.`)
    expect(warnings[0]?.cause).toBe(diskFull)
  })
}

test('a sink that throws something without any text is still only counted', async () => {
  const nothing = Object.create(null)
  const revoked = Proxy.revocable({}, {})
  revoked.revoke()
  for (const thrown of [nothing, revoked.proxy, Symbol('odd'), undefined]) {
    const sink: Sink = () => {
      throw thrown
    }
    emit(sink, event)
    expect(sinkFailures(sink)).toBe(1)
  }
  await settled()
  expect(warnings).toHaveLength(4)
})

test('a warning of a failed sink does not give away its secrets', async () => {
  emit(() => {
    throw new Error('connect redis://:hunter2@cache failed')
  }, event)
  await settled()
  expect(warnings[0]?.message).not.toContain('hunter2')
  expect(String(warnings[0]?.cause)).toContain('connect redis://')
})

test('a sink that returns something that is no promise has taken the event', () => {
  const list: WorkEvent[] = []
  const push = ((event: WorkEvent) => list.push(event)) as unknown as Sink
  const nothing = (() => null) as unknown as Sink
  emit(push, event)
  emit(nothing, event)
  expect([sinkFailures(push), sinkFailures(nothing)]).toEqual([0, 0])
  expect(list).toEqual([event])
})

test('one sink of several that fails does not keep the event from the others', async () => {
  const taken: string[] = []
  const broken: Sink = () => Promise.reject(new Error('no'))
  const all = fanOut(
    () => {
      throw new Error('no')
    },
    broken,
    ({ type }) => void taken.push(type),
  )
  emit(all, event)
  await settled()
  expect(taken).toEqual(['attempt_started'])
  expect([sinkFailures(broken), sinkFailures(all)]).toEqual([1, 0])
})

test('on() calls the function of the event type, and no other', () => {
  const calls: string[] = []
  const sink = on({
    attempt_started: ({ attempt }) => calls.push(`started ${attempt}`),
    gave_up: () => calls.push('no'),
  })
  emit(sink, event)
  expect(calls).toEqual(['started 1'])
})

test('an async function given to on() that rejects is a failure of the sink, not an unhandled rejection', async () => {
  const sink = on({
    attempt_started: async () => {
      throw new Error('page failed')
    },
  })
  emit(sink, event)
  await settled()
  expect(sinkFailures(sink)).toBe(1)
})
