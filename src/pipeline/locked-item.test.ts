import { expect, it, onTestFinished, vi } from 'vitest'
import { RateLimitedError } from '../policy/index.js'
import { MemoryStore } from '../store/internal.js'

import { fakeClock } from '../testing/index.js'
import { sleep } from '../time/index.js'
import { pipeline, stage } from './index.js'

const clock = fakeClock()

/** A store in which another transaction holds the item until it is released. */
function lockedStore(id: string) {
  const warned = vi.spyOn(process, 'emitWarning').mockReturnValue()
  onTestFinished(() => warned.mockRestore())
  const store = new MemoryStore({ clock })
  const settle = store.settle.bind(store)
  const failure = new Error('locked')
  let isLocked = true
  store.settle = async settlements => {
    const isHeld = (held: string) => isLocked && held === id
    const answers = (await settle(settlements.filter(({ id }) => !isHeld(id)))).values()
    return settlements.map(({ id }) => {
      const answer = isHeld(id) ? undefined : answers.next().value
      return answer ?? { result: 'locked', failure }
    })
  }
  const release = () => {
    isLocked = false
  }
  return { store, release }
}

it('a stage goes on although another transaction holds the item that met a rate limit', async () => {
  const { store, release } = lockedStore('r:000000000000')
  let claims = 0
  const claim = store.claim.bind(store)
  store.claim = request => {
    claims++
    return claim(request)
  }

  const called = new Set<number>()
  const line = pipeline(
    'line',
    stage('a', (n: number) => {
      if (n === 0 && called.size === 0) {
        called.add(0)
        throw new RateLimitedError('slow down', { retryAfterMs: 1000 })
      }
      called.add(n)
    }),
  )
  const over = line.run([0, 1, 2, 3, 4], { store, clock, id: 'r' })
  await clock.advance('10s')
  expect(called.size).toBe(5)
  expect(claims).toBeLessThan(50)
  release()
  await clock.advance('2m')
  expect(await over).toMatchObject({ counts: { succeeded: 5 } })
})

it('the next stage goes on although another transaction holds the item that was to come', async () => {
  const { store, release } = lockedStore('s:000000000000')
  const called: number[] = []
  let running = 0
  const line = pipeline(
    'line',
    stage('a', (n: number) => n, { concurrency: 1 }),
    stage(
      'b',
      async (n: number) => {
        expect(++running).toBe(1)
        await sleep(1, clock)
        running--
        called.push(n)
      },
      { concurrency: 1 },
    ),
  )
  const over = line.run([0, 1, 2, 3, 4], { store, clock, id: 's' })
  await clock.advance('10s')
  expect(called).toEqual([1, 2, 3, 4])
  release()
  await clock.advance('2m')
  expect(await over).toMatchObject({ counts: { succeeded: 5 } })
  expect(called).toEqual([1, 2, 3, 4, 0])
})
