import { getEventListeners } from 'node:events'
import { describe, expect, it, vi } from 'vitest'
import { unwatchAbort, watchAbort } from './abort.js'

const listeners = (signal: AbortSignal) => getEventListeners(signal, 'abort').length

describe('watching a signal', () => {
  it('calls everyone back, once, when the signal aborts', () => {
    const controller = new AbortController()
    const callbacks = [vi.fn(), vi.fn(), vi.fn()]
    for (const callback of callbacks) watchAbort(controller.signal, callback)

    controller.abort()
    controller.abort()
    for (const callback of callbacks) expect(callback).toHaveBeenCalledTimes(1)
  })

  it('puts one listener on the signal, however many watch', () => {
    const { signal } = new AbortController()
    for (let i = 0; i < 1000; i++) watchAbort(signal, () => {})
    expect(listeners(signal)).toBe(1)
  })

  it('takes the listener away with the last one who watches, not before', () => {
    const { signal } = new AbortController()
    const [first, second] = [() => {}, () => {}]
    watchAbort(signal, first)
    watchAbort(signal, second)

    unwatchAbort(signal, first)
    expect(listeners(signal)).toBe(1)
    unwatchAbort(signal, second)
    expect(listeners(signal)).toBe(0)
  })

  it('leaves no listener behind after an abort', () => {
    const controller = new AbortController()
    watchAbort(controller.signal, () => {})
    controller.abort()
    expect(listeners(controller.signal)).toBe(0)
  })

  it('does not call back who has stopped watching', () => {
    const controller = new AbortController()
    const [gone, there] = [vi.fn(), vi.fn()]
    watchAbort(controller.signal, gone)
    watchAbort(controller.signal, there)
    unwatchAbort(controller.signal, gone)

    controller.abort()
    expect(gone).not.toHaveBeenCalled()
    expect(there).toHaveBeenCalledTimes(1)
  })

  it('works again after everyone had left', () => {
    const controller = new AbortController()
    const callback = vi.fn()
    watchAbort(controller.signal, callback)
    unwatchAbort(controller.signal, callback)
    watchAbort(controller.signal, callback)

    controller.abort()
    expect(callback).toHaveBeenCalledTimes(1)
  })

  it('keeps signals apart', () => {
    const [one, other] = [new AbortController(), new AbortController()]
    const [ofOne, ofOther] = [vi.fn(), vi.fn()]
    watchAbort(one.signal, ofOne)
    watchAbort(other.signal, ofOther)

    one.abort()
    expect(ofOne).toHaveBeenCalledTimes(1)
    expect(ofOther).not.toHaveBeenCalled()
    expect(listeners(other.signal)).toBe(1)
  })

  it('reaches everyone, even if each one stops watching when it is called back', () => {
    const controller = new AbortController()
    const { signal } = controller
    const called: number[] = []
    const callbacks = Array.from({ length: 100 }, (_, i) => () => {
      called.push(i)
      unwatchAbort(signal, callbacks[i] ?? expect.fail())
    })
    for (const callback of callbacks) watchAbort(signal, callback)

    controller.abort()
    expect(called).toEqual(callbacks.map((_, i) => i))
    expect(listeners(signal)).toBe(0)
  })

  it('of a signal that has aborted never calls back, and leaves nothing behind', () => {
    const signal = AbortSignal.abort()
    const callback = vi.fn()
    watchAbort(signal, callback)
    unwatchAbort(signal, callback)
    expect(callback).not.toHaveBeenCalled()
    expect(listeners(signal)).toBe(0)
  })

  it('ends without harm for who never watched', () => {
    const { signal } = new AbortController()
    expect(() => unwatchAbort(signal, () => {})).not.toThrow()
  })
})
