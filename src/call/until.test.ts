import { describe, expect, it, vi } from 'vitest'
import { fakeClock } from '../testing/index.js'
import { RetryExhaustedError, RetryManager, retry, retrying, UnwantedResultError, until } from './index.js'

const policy = { attempts: 3, backoff: 'none' } as const
const isDone = (job: { readonly state: string }) => job.state === 'done'

function jobs(...states: string[]) {
  return vi.fn(async () => ({ state: states.shift() ?? 'gone' }))
}

describe('until', () => {
  it('calls again until the result is the wanted one', async () => {
    const load = jobs('queued', 'running', 'done')
    await expect(retry(until(load, isDone), policy)).resolves.toEqual({ state: 'done' })
    expect(load).toHaveBeenCalledTimes(3)
  })

  it('hands on the attempt', async () => {
    const load = vi.fn((_: { attempt: number; signal: AbortSignal }) => 'done')
    await retry(until(load, () => true))
    expect(load.mock.calls[0]?.[0]).toMatchObject({ attempt: 1, signal: expect.any(AbortSignal) })
  })

  it('has the last result on the error when the policy gives up', async () => {
    const call = retry(until(jobs('queued', 'running', 'running still'), isDone), policy)
    const error: unknown = await call.catch(error => error)
    if (!(error instanceof RetryExhaustedError && error.cause instanceof UnwantedResultError)) throw error
    expect(error.reason).toBe('attempts_exhausted')
    expect(error.cause.result).toEqual({ state: 'running still' })
    expect(error.attempts.map(({ verdict }) => verdict.code)).toEqual(Array(3).fill('unwanted_result'))
  })

  it('is retried by a policy that lists other errors too', async () => {
    const listed = { ...policy, retryOn: [503] }
    await expect(retry(until(jobs('queued', 'done'), isDone), listed)).resolves.toEqual({ state: 'done' })
  })

  it('leaves failures as they are', async () => {
    const failing = () => Promise.reject(Object.assign(new Error('gone'), { status: 404 }))
    await expect(
      retry(
        until(failing, () => true),
        policy,
      ),
    ).rejects.toThrow('gone')
  })

  it('works with a manager and with retrying', async () => {
    const clock = fakeClock()
    const manager = new RetryManager({ categories: { JOB: policy }, clock })
    const managed = manager.execute('JOB', 'load', until(jobs('queued', 'done'), isDone))
    await clock.runAll()
    await expect(managed).resolves.toEqual({ state: 'done' })
    const load = retrying(until(jobs('queued', 'done'), isDone), policy)
    await expect(load({ attempt: 1, signal: new AbortController().signal, deadline: undefined })).resolves.toEqual({
      state: 'done',
    })
  })
})
