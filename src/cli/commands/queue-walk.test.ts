import { expect, it, onTestFinished, vi } from 'vitest'
import { quietEnvironment } from '../../../test/command.js'
import { MemoryBus } from '../../bus/index.js'
import { consoleOf } from '../terminal/console.js'
import { walk } from './queue-walk.js'

/** A bus with three messages in a failed queue, and what is said while somebody goes through it. */
async function scene() {
  const bus = new MemoryBus()
  await bus.declare({ chunking: 'json.parsed' })
  for (const id of ['1', '2', '3']) await bus.put('chunking.failed', { id, type: 'json.parsed', body: id })
  const said: string[] = []
  const environment = quietEnvironment({ stderr: { write: text => said.push(text) } })
  const context = { environment, console: consoleOf(environment), end: () => {} }
  return { bus, context, said, queue: { name: 'chunking.failed', messages: 3, route: undefined } }
}

it('says how far it is, about once a second', async () => {
  vi.useFakeTimers({ toFake: ['performance'] })
  onTestFinished(() => void vi.useRealTimers())
  const { bus, context, said, queue } = await scene()
  const visit = async () => {
    vi.advanceTimersByTime(550)
    return true
  }
  expect(await walk(context, bus, queue, { done: 'removed' }, visit)).toEqual({ count: 3, isStopped: false })
  expect(said).toEqual(['2 of 3 removed so far.\n'])
})

it('counts what was done, and says how much that is when it fails', async () => {
  const { bus, context, said, queue } = await scene()
  const visit = async ({ id }: { id: string | undefined }) => {
    if (id === '3') throw new Error('the broker is gone')
    return id === '1'
  }
  await expect(walk(context, bus, queue, { done: 'requeued' }, visit)).rejects.toThrow('the broker is gone')
  expect(said).toEqual(['1 requeued before it failed. The rest is where it was.\n'])
})
