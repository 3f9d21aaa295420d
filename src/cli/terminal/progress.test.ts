import { expect, it, onTestFinished, vi } from 'vitest'
import { quietEnvironment } from '../../../test/command.js'
import { consoleOf } from './console.js'
import { withCount } from './progress.js'

const REMOVAL = { total: 3, verb: 'removed', unit: 'message', rest: 'The rest is where it was.' }

/** A context, and the lines that are printed in it. */
function scene() {
  const said: string[] = []
  let send = (_: string) => {}
  const environment = quietEnvironment({
    stderr: { write: text => said.push(text) },
    onSignal: callback => {
      send = callback
      return () => {}
    },
  })
  return { context: { environment, console: consoleOf(environment) }, said, send: (signal: string) => send(signal) }
}

it('reports how far it is, about once a second', async () => {
  vi.useFakeTimers({ toFake: ['performance'] })
  onTestFinished(() => void vi.useRealTimers())
  const { context, said } = scene()
  await withCount(context, REMOVAL, async ({ onProgress }) => {
    for (const count of [1, 2, 3]) {
      vi.advanceTimersByTime(550)
      onProgress(count)
    }
  })
  expect(said).toEqual(['2 of 3 removed so far.\n'])
})

it('says how much was done when it fails', async () => {
  const { context, said } = scene()
  const failing = withCount(context, REMOVAL, async ({ onProgress }) => {
    onProgress(1)
    throw new Error('the broker is gone')
  })
  await expect(failing).rejects.toThrow('the broker is gone')
  expect(said).toEqual(['1 removed before it failed. The rest is where it was.\n'])
})

it('aborts its signal when the process gets one, and says when it will stop', async () => {
  const { context, said, send } = scene()
  await withCount(context, REMOVAL, async ({ signal }) => {
    expect(signal.aborted).toBe(false)
    send('SIGTERM')
    await vi.waitFor(() => expect(signal.aborted).toBe(true))
  })
  expect(said).toEqual(['SIGTERM: stopping after this message.\n'])
})
