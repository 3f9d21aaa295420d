import { describe, expect, it, vi } from 'vitest'
import { classify, FinalError, policies } from '../policy/index.js'
import { fakeClock } from '../testing/index.js'
import { DocumentNotFoundError, waitForVersion } from './index.js'
import type { Version } from './internal.js'

/** Reads what comes next, and the last of it from then on; `undefined` is no document. */
function reading<V extends Version>(...versions: (V | undefined | Error)[]) {
  return vi.fn(async () => {
    const next = versions.length > 1 ? versions.shift() : versions[0]
    if (next instanceof Error) throw next
    return next === undefined ? undefined : { version: next, text: `v${next}` }
  })
}

/** Waits on a clock that runs by itself. */
async function wait<T>(start: (clock: ReturnType<typeof fakeClock>) => Promise<T>) {
  const clock = fakeClock()
  const began = clock.now()
  let tookMs: number | undefined
  const end = start(clock)
    .then(
      seen => ({ seen, error: undefined }),
      error => ({ seen: undefined, error }),
    )
    .finally(() => {
      tookMs = clock.now() - began
    })
  await clock.advance('1h')
  return { ...(await end), tookMs }
}

describe('a read that waits for a version', () => {
  it('returns a document that is as new at once, and one that is newer too', async () => {
    for (const version of [3, 4]) {
      const read = reading<number>(version)
      expect(await waitForVersion(read, 3)).toEqual({ version, text: `v${version}` })
      expect(read).toHaveBeenCalledTimes(1)
    }
  })

  it('reads again until the document is there, and new enough', async () => {
    const read = reading<number>(undefined, 1, 2, 3)
    const { seen, tookMs } = await wait(clock => waitForVersion(read, 3, undefined, { clock }))
    expect(seen).toMatchObject({ version: 3 })
    expect(read).toHaveBeenCalledTimes(4)
    expect(tookMs).toBe(25 + 50 + 100)
  })

  it('gives up as its policy says, with an error that the policy of events retries', async () => {
    const read = reading<number>(2)
    const policy = { attempts: 3, backoff: { kind: 'fixed', base: '10ms' }, jitter: 'none' } as const
    const { error, tookMs } = await wait(clock => waitForVersion(read, 3, policy, { clock }))
    expect(error).toBeInstanceOf(DocumentNotFoundError)
    expect(error.message).toBe('Version 3 could not be seen in time. Only version 2 can be seen yet.')
    expect(read).toHaveBeenCalledTimes(3)
    expect(tookMs).toBe(20)
    expect(classify(error, policies.event, 0)).toMatchObject({ class: 'retryable', code: 'document_not_found' })
  })

  it('reads again after a failure that may pass, which is the cause if that was the last', async () => {
    const down = Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' })
    const { seen } = await wait(clock => waitForVersion(reading<number>(down, 1), 1, undefined, { clock }))
    expect(seen).toMatchObject({ version: 1 })
    const { error } = await wait(clock => waitForVersion(reading<number>(down), 1, undefined, { clock }))
    expect(error).toBeInstanceOf(DocumentNotFoundError)
    expect(error.cause).toBe(down)
    expect(classify(error, policies.event, 0)).toMatchObject({ class: 'retryable' })
  })

  it('rejects at once with a failure that is final', async () => {
    const bad = new FinalError('no such table')
    const read = reading<number>(bad)
    await expect(waitForVersion(read, 1)).rejects.toBe(bad)
    expect(read).toHaveBeenCalledTimes(1)
  })

  it('compares numbers, texts and large numbers, or as it is told', async () => {
    expect(await waitForVersion(reading<number>(10), 9)).toBeDefined()
    expect(await waitForVersion(reading<bigint>(10n), 9n)).toBeDefined()
    expect(await waitForVersion(reading<string>('2026-02'), '2026-01')).toBeDefined()
    const once = { attempts: 1 }
    await expect(waitForVersion(reading<string>('10'), '9', once)).rejects.toThrow(DocumentNotFoundError)
    const compare = (a: string, b: string) => Number(a) - Number(b)
    expect(await waitForVersion(reading<string>('10'), '9', once, { compare })).toBeDefined()
  })

  it('stops when its signal aborts, with the reason of that', async () => {
    const abort = new AbortController()
    const read = vi.fn(() => {
      abort.abort(new Error('stopping'))
      return undefined
    })
    await expect(waitForVersion(read, 1, undefined, { signal: abort.signal })).rejects.toThrow('stopping')
    expect(read).toHaveBeenCalledTimes(1)
  })
})
