import { setTimeout as sleepInNode } from 'node:timers/promises'
import { beforeEach, describe, expect, it } from 'vitest'
import { MemoryBus } from '../src/bus/index.js'
import { retry } from '../src/call/index.js'
import { consume } from '../src/event/index.js'
import { IdempotencyGuard } from '../src/idempotency/index.js'
import { batch, pipeline, type Stage, stage } from '../src/pipeline/index.js'
import { MemoryStore } from '../src/store/internal.js'

import { defineTask, TaskQueue, Worker } from '../src/task/index.js'
import { type FakeClock, fakeClock } from '../src/testing/index.js'

/** How a handler may answer the abort of its signal. */
const ANSWERS = {
  'returns early': signal => aborted(signal),
  'rejects with the reason': signal => aborted(signal).then(() => signal.throwIfAborted()),
  "rejects with Node's AbortError": signal => sleepInNode(3_600_000, undefined, { signal }),
  'rejects with an error of its own': signal => aborted(signal).then(() => Promise.reject(new TypeError('no reply'))),
  'rejects with the abort as the cause': signal =>
    aborted(signal).then(() => Promise.reject(new Error('failed', { cause: signal.reason }))),
  'goes on for ever': () => new Promise(() => {}),
} satisfies Record<string, Handler>

type Handler = (signal: AbortSignal) => Promise<unknown>
type Answer = keyof typeof ANSWERS

const POLICY = { attempts: 8, backoff: 'fixed', timeout: '10s' } as const
const TIMES = { lease: '3s', grace: '1s' } as const

/** Work whose handler has begun, and waits for its signal. */
interface Begun {
  /** The id of its task. */
  readonly id: string
  /** How many rows its ledger had before. */
  readonly rows: number
  stop(): Promise<unknown>
}

let clock: FakeClock
let store: MemoryStore
beforeEach(() => {
  clock = fakeClock()
  store = new MemoryStore({ clock })
})

/** Answers the abort in the given way once; later calls succeed. */
function once(answer: Answer): (signal: AbortSignal) => Promise<unknown> {
  let calls = 0
  return async signal => (++calls === 1 ? ANSWERS[answer](signal) : 'done')
}

async function task(answer: Answer): Promise<Begun> {
  const handle = once(answer)
  const work = defineTask('work', { policy: POLICY, handler: (_: null, { signal }) => handle(signal) })
  const worker = new Worker(store, { tasks: [work], clock, ...TIMES })
  const { id } = await new TaskQueue(store).enqueue(work, null)
  await worker.start()
  await clock.advance(0)
  return { id, rows: 0, stop: () => worker.stop() }
}

async function item(code: Stage<number, unknown>): Promise<Begun> {
  const active = await pipeline('line', code).start([1], { store, clock, id: 'run', ...TIMES })
  await clock.advance(200)
  return { id: 'run:000000000000', rows: 0, stop: () => active.stop() }
}

function stageItem(answer: Answer): Promise<Begun> {
  const handle = once(answer)
  return item(stage('work', (_: number, { signal }) => handle(signal), { policy: POLICY }))
}

function batchItem(answer: Answer): Promise<Begun> {
  const handle = once(answer)
  const call = async (inputs: readonly number[], { signal }: { readonly signal: AbortSignal }) => {
    await handle(signal)
    return inputs
  }
  return item(batch('work', call, { size: 10, policy: POLICY }))
}

/** An event that failed once, and is handled again from the store. */
async function event(answer: Answer, guard?: IdempotencyGuard): Promise<Begun> {
  const bus = new MemoryBus()
  await bus.declare({ queue: 'type' })
  const handle = once(answer)
  const consumer = await consume(bus, 'queue', {
    ...{ service: 'service', key: () => 'key', store, clock, policy: POLICY, guard, ...TIMES },
    handler: (_, { attempt, signal }) => (attempt === 1 ? Promise.reject(new Error('not yet')) : handle(signal)),
  })
  await bus.publish({ id: 'event', type: 'type', body: '{}' })
  await expect.poll(() => store.get('queue/event')).toBeDefined()
  await clock.advance('1s')
  return { id: 'queue/event', rows: 1, stop: () => consumer.stop() }
}

const guardedEvent = (answer: Answer) => event(answer, new IdempotencyGuard({ store: store.idempotency, clock }))

const DRIVERS = {
  'a task': task,
  'an item of a stage': stageItem,
  'an item of a batch': batchItem,
  'an event': event,
  'an event under a guard': guardedEvent,
}
const CASES = Object.entries(DRIVERS).flatMap(([name, begin]) =>
  // A guard keeps a key for as long as its function runs, so work that never ends cannot run again.
  (Object.keys(ANSWERS) as Answer[])
    .filter(answer => begin !== guardedEvent || answer !== 'goes on for ever')
    .map(answer => ({ name, begin, answer })),
)

/** The ends of the attempts since the handler began: their error codes, or their outcomes. */
async function endsOf({ id, rows }: Begun) {
  const ledger = await store.ledger(id)
  return ledger.slice(rows).map(({ outcome, verdict }) => verdict?.code ?? outcome)
}

describe.each(CASES)('$name whose handler $answer', ({ begin, answer }) => {
  it('is charged nothing for a lease that its worker lost, and runs again', async () => {
    const begun = await begin(answer)
    const heartbeat = store.heartbeat.bind(store)
    store.heartbeat = () => Promise.reject(new Error('the store is away'))
    await clock.advance('3s')
    store.heartbeat = heartbeat
    await clock.advance('18s')
    // The run that was called off is on record, at no cost.
    expect((await endsOf(begun)).filter(outcome => outcome !== 'later')).toEqual(['succeeded'])
    await begun.stop()
  })

  it('is handed back uncounted when its worker stops', async () => {
    const begun = await begin(answer)
    const stopped = begun.stop()
    await clock.advance('1s')
    await stopped
    expect(await endsOf(begun)).toEqual([])
    expect(await store.get(begun.id)).toMatchObject({ status: 'waiting' })
  })

  it('is cancelled when somebody cancels it', async () => {
    const begun = await begin(answer)
    await store.cancel([begun.id])
    await clock.advance('61s')
    expect(await endsOf(begun)).toEqual(['cancelled'])
    expect(await store.get(begun.id)).toMatchObject({ status: 'cancelled' })
    await begun.stop()
  })

  it('has timed out when its time is up', async () => {
    const begun = await begin(answer)
    await clock.advance('20s')
    expect((await endsOf(begun))[0]).toBe('timeout')
    await begun.stop()
  })
})

describe.each(Object.keys(ANSWERS) as Answer[])('a call whose function %s', answer => {
  it('is aborted when its caller aborts', async () => {
    const caller = new AbortController()
    const ended = retry(({ signal }) => ANSWERS[answer](signal), POLICY, { clock, signal: caller.signal })
    const rejected = expect(ended).rejects.toThrow('enough')
    await clock.advance('1s')
    caller.abort(new Error('enough'))
    await rejected
  })

  it('has timed out when its time is up', async () => {
    const ended = retry(({ signal }) => ANSWERS[answer](signal), { ...POLICY, attempts: 1 }, { clock })
    const rejected = expect(ended).rejects.toMatchObject({ cause: { code: 'timeout' } })
    await clock.advance('10s')
    await rejected
  })
})

/** Resolves when the signal aborts. */
function aborted(signal: AbortSignal): Promise<void> {
  return new Promise(resolve => signal.addEventListener('abort', () => resolve(), { once: true }))
}
