import { expect, it } from 'vitest'
import { signalsOf } from './signals.js'

/** Signals that the test sends. */
function bench() {
  let send: (signal: string) => void = () => {}
  let isOpen = true
  const signals = signalsOf({
    onSignal: callback => {
      send = callback
      return () => (isOpen = false)
    },
  })
  return { signals, send: (signal: string) => send(signal), isOpen: () => isOpen }
}

it('a signal that comes twice at once, as under npm, is one', async () => {
  const { signals, send } = bench()
  send('SIGINT')
  send('SIGINT')
  expect(await signals.next()).toBe('SIGINT')
  let isSecond = false
  const second = signals.next().then(() => (isSecond = true))
  await new Promise(resolve => setTimeout(resolve, 150))
  expect(isSecond).toBe(false)
  send('SIGTERM')
  expect(await second).toBe(true)
})

it('stops listening when it is closed', () => {
  const { signals, isOpen } = bench()
  signals.close()
  expect(isOpen()).toBe(false)
})
