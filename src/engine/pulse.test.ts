import { expect, it, vi } from 'vitest'
import { fakeClock } from '../testing/index.js'
import { Pulse, type PulseListener } from './pulse.js'

function listener() {
  return {
    onBeat: vi.fn<PulseListener['onBeat']>(),
    onLeaseLost: vi.fn<PulseListener['onLeaseLost']>(),
    onMissed: vi.fn<PulseListener['onMissed']>(),
    onRecovered: vi.fn<PulseListener['onRecovered']>(),
    onRefused: vi.fn<PulseListener['onRefused']>(),
  }
}

it('notices that the lease is over while a beat still waits for its answer, and sends no second one meanwhile', async () => {
  const clock = fakeClock()
  const heard = listener()
  let answer = () => {}
  const heartbeat = vi
    .fn(async () => ({ cancelled: [], rescued: 0 }))
    .mockImplementationOnce(async () => ({ cancelled: [], rescued: 0 }))
    .mockImplementationOnce(
      () =>
        new Promise(resolve => {
          answer = () => resolve({ cancelled: [], rescued: 0 })
        }),
    )
  const pulse = new Pulse({ heartbeat }, () => ({ worker: 'w', leaseMs: 3000 }), 3000, clock, heard)
  await pulse.beat()
  pulse.start()
  await clock.advance(2999)
  expect(heard.onLeaseLost).not.toHaveBeenCalled()
  await clock.advance(1)
  expect(heard.onLeaseLost.mock.calls).toEqual([[false]])
  expect(heartbeat).toHaveBeenCalledTimes(2)
  answer()
  await clock.advance(1000)
  expect(heartbeat).toHaveBeenCalledTimes(3)
  expect(heard.onBeat).toHaveBeenCalledTimes(3)
  pulse.stop()
})

it('tells a process that was blocked from a store that did not answer', async () => {
  const clock = fakeClock()
  let blockedMs = 0
  const blockable = { ...clock, monotonic: () => clock.monotonic() + blockedMs }
  const heard = listener()
  const heartbeat = vi.fn(async () => ({ cancelled: [], rescued: 0 }))
  const pulse = new Pulse({ heartbeat }, () => ({ worker: 'w', leaseMs: 3000 }), 3000, blockable, heard)
  await pulse.beat()
  pulse.start()
  await clock.advance(999)
  blockedMs += 1999
  await clock.advance(1)
  expect(heard.onLeaseLost).not.toHaveBeenCalled()
  blockedMs += 2000
  await clock.advance(1000)
  expect(heard.onLeaseLost.mock.calls[0]).toEqual([true])

  heard.onLeaseLost.mockClear()
  heartbeat.mockRejectedValue(new Error('the store is away'))
  await clock.advance(1000)
  blockedMs += 3000
  await clock.advance(1000)
  expect(heard.onLeaseLost.mock.calls[0]).toEqual([false])
  pulse.stop()
})
