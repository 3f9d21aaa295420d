import { getEventListeners } from 'node:events'
import { describe, expect, it, vi } from 'vitest'
import { unwatchAbort, watchAbort } from './abort.js'

const listeners = (signal: AbortSignal) => getEventListeners(signal, 'abort').length

describe('watching a signal', () => {
  it('wakes everyone, once, when the signal aborts', () => {
    const controller = new AbortController()
    const sleepers = [{ wake: vi.fn() }, { wake: vi.fn() }, { wake: vi.fn() }]
    for (const sleeper of sleepers) watchAbort(controller.signal, sleeper)

    controller.abort()
    controller.abort()
    for (const sleeper of sleepers) expect(sleeper.wake).toHaveBeenCalledTimes(1)
  })

  it('puts one listener on the signal, however many watch', () => {
    const { signal } = new AbortController()
    for (let i = 0; i < 1000; i++) watchAbort(signal, { wake: () => {} })
    expect(listeners(signal)).toBe(1)
  })

  it('takes the listener away with the last one who watches, not before', () => {
    const { signal } = new AbortController()
    const [first, second] = [{ wake: () => {} }, { wake: () => {} }]
    watchAbort(signal, first)
    watchAbort(signal, second)

    unwatchAbort(signal, first)
    expect(listeners(signal)).toBe(1)
    unwatchAbort(signal, second)
    expect(listeners(signal)).toBe(0)
  })

  it('leaves no listener behind after an abort', () => {
    const controller = new AbortController()
    watchAbort(controller.signal, { wake: () => {} })
    controller.abort()
    expect(listeners(controller.signal)).toBe(0)
  })

  it('does not wake who has stopped watching', () => {
    const controller = new AbortController()
    const [gone, there] = [{ wake: vi.fn() }, { wake: vi.fn() }]
    watchAbort(controller.signal, gone)
    watchAbort(controller.signal, there)
    unwatchAbort(controller.signal, gone)

    controller.abort()
    expect(gone.wake).not.toHaveBeenCalled()
    expect(there.wake).toHaveBeenCalledTimes(1)
  })

  it('works again after everyone had left', () => {
    const controller = new AbortController()
    const sleeper = { wake: vi.fn() }
    watchAbort(controller.signal, sleeper)
    unwatchAbort(controller.signal, sleeper)
    watchAbort(controller.signal, sleeper)

    controller.abort()
    expect(sleeper.wake).toHaveBeenCalledTimes(1)
  })

  it('keeps signals apart', () => {
    const [one, other] = [new AbortController(), new AbortController()]
    const [ofOne, ofOther] = [{ wake: vi.fn() }, { wake: vi.fn() }]
    watchAbort(one.signal, ofOne)
    watchAbort(other.signal, ofOther)

    one.abort()
    expect(ofOne.wake).toHaveBeenCalledTimes(1)
    expect(ofOther.wake).not.toHaveBeenCalled()
    expect(listeners(other.signal)).toBe(1)
  })

  it('reaches everyone, even if each one stops watching when it is woken', () => {
    const controller = new AbortController()
    const { signal } = controller
    const called: number[] = []
    const sleepers = Array.from({ length: 100 }, (_, i) => ({
      wake: () => {
        called.push(i)
        unwatchAbort(signal, sleepers[i] ?? expect.fail())
      },
    }))
    for (const sleeper of sleepers) watchAbort(signal, sleeper)

    controller.abort()
    expect(called).toEqual(sleepers.map((_, i) => i))
    expect(listeners(signal)).toBe(0)
  })

  it('of a signal that has aborted never wakes anyone, and leaves nothing behind', () => {
    const signal = AbortSignal.abort()
    const sleeper = { wake: vi.fn() }
    watchAbort(signal, sleeper)
    unwatchAbort(signal, sleeper)
    expect(sleeper.wake).not.toHaveBeenCalled()
    expect(listeners(signal)).toBe(0)
  })

  it('ends without harm for who never watched', () => {
    const { signal } = new AbortController()
    expect(() => unwatchAbort(signal, { wake: () => {} })).not.toThrow()
  })
})
