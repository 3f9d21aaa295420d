import { describe, expect, it, vi } from 'vitest'
import { RetryExhaustedError, retry } from '../call/index.js'
import { FinalError, RetryableError } from '../policy/index.js'
import type { WorkEvent } from '../telemetry/index.js'
import { fakeClock } from '../testing/index.js'
import {
  type DeadLetterEntry,
  DeadLetterError,
  DocumentNotFoundError,
  EventExhaustedError,
  handleEvent,
} from './index.js'

const EVENT = { type: 'json.parsed', message_ids: ['m1'], nested: { n: 1 } }

/** Handles an event on a clock that runs by itself, and says what became of it. */
async function handle(
  handler: (event: typeof EVENT, attempt: { attempt: number }) => unknown,
  options: Partial<Parameters<typeof handleEvent>[2]> = {},
) {
  const clock = fakeClock()
  const letters: DeadLetterEntry[] = []
  const events: WorkEvent[] = []
  const handled = handleEvent(handler, EVENT, {
    service: 'chunking',
    key: 'chunking-m1',
    deadLetter: entry => letters.push(entry),
    sink: event => events.push(event),
    clock,
    random: () => 0.999999,
    ...options,
  }).then(
    result => ({ result, error: undefined }),
    error => ({ result: undefined, error }),
  )
  const began = clock.now()
  await clock.advance('2h')
  return { ...(await handled), letters, events, began }
}

describe('an event', () => {
  it('that succeeds is handled once, and is no dead letter', async () => {
    const { result, letters, events } = await handle(() => 'done')
    expect(result).toBe('done')
    expect(letters).toEqual([])
    expect(events.map(({ type, work }) => `${work.kind} ${type}`)).toEqual([
      'event attempt_started',
      'event attempt_succeeded',
    ])
  })

  it('that comes before its document is retried until the document is there', async () => {
    let calls = 0
    const { result, letters } = await handle(() => {
      if (++calls < 5) throw new DocumentNotFoundError('No messages found')
      return calls
    })
    expect(result).toBe(5)
    expect(letters).toEqual([])
  })

  it('is given up after eight calls, and its dead letter has the eight fields', async () => {
    const { error, letters, began } = await handle(() => {
      throw new DocumentNotFoundError('No messages found')
    })
    expect(error).toBeInstanceOf(EventExhaustedError)
    expect(error.cause).toBeInstanceOf(DocumentNotFoundError)
    expect(error.deadLetter).toEqual(letters[0])
    expect(letters).toEqual([
      {
        original_event: EVENT,
        idempotency_key: 'chunking-m1',
        attempt_count: 8,
        last_error: 'DocumentNotFoundError: No messages found',
        error_type: 'DocumentNotFoundError',
        abandoned_reason: 'max_attempts_exceeded',
        service_name: 'chunking',
        timestamp: new Date(began + 31_750).toISOString(),
      },
    ])
  })

  it('whose time to live would end before the next call is not waited for', async () => {
    const { letters } = await handle(
      () => {
        throw new RetryableError('not yet')
      },
      { policy: { attempts: 8, backoff: { kind: 'fixed', base: '10s' }, jitter: 'none', ttl: '25s' } },
    )
    expect(letters).toMatchObject([{ attempt_count: 3, abandoned_reason: 'ttl_exceeded' }])
  })

  it('with a time to live of 0 is called once', async () => {
    const handler = vi.fn(() => {
      throw new RetryableError('not yet')
    })
    const { letters } = await handle(handler, { policy: { attempts: 8, ttl: 0 } })
    expect(handler).toHaveBeenCalledTimes(1)
    expect(letters).toMatchObject([{ attempt_count: 1, abandoned_reason: 'ttl_exceeded' }])
  })

  it.each([
    ['a bug', new TypeError('undefined is not a function')],
    ['an error of validation', new FinalError('no id')],
    ['a status that is final', Object.assign(new Error('no such order'), { status: 404 })],
  ])('whose handler throws %s is a dead letter at once, and that is what comes back', async (_, thrown) => {
    const { error, letters } = await handle(() => {
      throw thrown
    })
    expect(error).toBe(thrown)
    expect(letters).toMatchObject([{ attempt_count: 1, abandoned_reason: 'non_retryable_error' }])
  })

  it.each([
    ['the network', Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' })],
    ['a server', Object.assign(new Error('bad gateway'), { status: 502 })],
    ['something unknown', new Error('down')],
  ])('is retried while %s fails', async (_, thrown) => {
    let calls = 0
    const { result, letters } = await handle(() => {
      if (++calls < 3) throw thrown
      return 'done'
    })
    expect([result, calls, letters]).toEqual(['done', 3, []])
  })

  it('whose handler retries by itself, and gives up, is told by its own attempts', async () => {
    const inner = () =>
      retry(() => Promise.reject(new RetryableError('inner')), { attempts: 2, backoff: 'none', jitter: 'none' })
    const { letters, error } = await handle(inner, { policy: { giveUpOn: ['RetryExhaustedError'] } })
    expect(letters).toMatchObject([{ attempt_count: 1, abandoned_reason: 'non_retryable_error' }])
    expect(error).toBeInstanceOf(RetryExhaustedError)
  })

  it('whose handler throws a proxy on which everything throws is a dead letter all the same', async () => {
    const trap = () => {
      throw new Error('trap')
    }
    const hostile: unknown = new Proxy(new Error('hidden'), { get: trap, getPrototypeOf: trap, has: trap })
    const { letters } = await handle(() => {
      throw hostile
    })
    expect(letters).toMatchObject([{ attempt_count: 8, abandoned_reason: 'max_attempts_exceeded' }])
  })

  it('has the class of its error in its dead letter, also where the class does not name itself', async () => {
    class ValidationError extends Error {}
    const { letters } = await handle(() => {
      throw new ValidationError('no id')
    })
    expect(letters).toMatchObject([{ error_type: 'ValidationError', last_error: 'ValidationError: no id' }])
  })

  it('is seen as it was delivered by each attempt and by the dead letter, whatever a handler does to it', async () => {
    const seen: unknown[] = []
    const { letters } = await handle(
      event => {
        seen.push(structuredClone(event))
        event.nested.n++
        event.message_ids.push('m2')
        throw new RetryableError('not yet')
      },
      { policy: { attempts: 3, backoff: 'none', jitter: 'none' } },
    )
    expect(seen).toEqual([EVENT, EVENT, EVENT])
    expect(letters).toMatchObject([{ original_event: { message_ids: ['m1'], nested: { n: 1 } } }])
  })

  it('whose dead letter cannot be written says so: it must not be acknowledged', async () => {
    const full = new Error('the failed queue is full')
    const { error } = await handle(() => Promise.reject(new FinalError('no id')), {
      deadLetter: () => Promise.reject(full),
    })
    expect(error).toBeInstanceOf(DeadLetterError)
    expect(error).toMatchObject({ cause: full, deadLetter: { last_error: 'FinalError: no id' } })
  })

  it('that is aborted is no dead letter', async () => {
    const abort = new AbortController()
    const { error, letters } = await handle(
      () => {
        abort.abort(new Error('stopping'))
        throw new RetryableError('not yet')
      },
      { signal: abort.signal },
    )
    expect(error).toMatchObject({ message: 'stopping' })
    expect(letters).toEqual([])
  })
})
