import { once } from 'node:events'
import { connect, createServer } from 'node:net'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { soon } from './soon.js'

afterEach(() => {
  vi.restoreAllMocks()
})

/** Wakes sleepers one after the other until the goal is reached. Says how many, or gives up. */
async function wakesUntil(goal: () => boolean): Promise<number | 'starved'> {
  for (let wakes = 1; wakes <= 200_000; wakes++) {
    await new Promise<void>(resolve => soon({ wake: resolve }))
    if (goal()) return wakes
  }
  return 'starved'
}

describe('soon', () => {
  it('wakes each sleeper once', async () => {
    const wakes = Array.from({ length: 100 }, () => vi.fn())
    for (const wake of wakes) soon({ wake })
    await new Promise(resolve => setImmediate(resolve))
    for (const wake of wakes) expect(wake).toHaveBeenCalledTimes(1)
  })

  it('never wakes a sleeper before the code that runs now has ended', async () => {
    const woken: number[] = []
    for (let i = 0; i < 16; i++) soon({ wake: () => woken.push(i) })
    expect(woken).toEqual([])
    await new Promise(resolve => setImmediate(resolve))
    expect(woken).toHaveLength(16)
  })

  it('sets no timer', async () => {
    const setTimeout = vi.spyOn(globalThis, 'setTimeout')
    let wakes = 0
    await wakesUntil(() => ++wakes === 200)
    expect(setTimeout).not.toHaveBeenCalled()
  })

  it('lets immediates run, however many sleepers follow each other', async () => {
    let ran = false
    setImmediate(() => (ran = true))
    expect(await wakesUntil(() => ran)).not.toBe('starved')
  })

  it('lets timers run, however many sleepers follow each other', async () => {
    let ran = false
    setTimeout(() => (ran = true), 1)
    expect(await wakesUntil(() => ran)).not.toBe('starved')
  })

  it('lets timers run while many chains of sleepers run side by side', async () => {
    let ran = false
    setTimeout(() => (ran = true), 1)
    const chains = await Promise.all(Array.from({ length: 9 }, () => wakesUntil(() => ran)))
    expect(chains).not.toContain('starved')
  })

  it('lets sockets be read, however many sleepers follow each other', async () => {
    const server = createServer(socket => socket.end('hello')).listen(0, '127.0.0.1')
    await once(server, 'listening')
    const address = server.address()
    if (address === null || typeof address === 'string') throw new Error('no port')
    const socket = connect(address.port, '127.0.0.1')
    let read = ''
    socket.on('data', data => (read += data))

    expect(await wakesUntil(() => read === 'hello')).not.toBe('starved')
    socket.destroy()
    server.close()
  })
})
