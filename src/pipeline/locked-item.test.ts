import { expect, it, onTestFinished, vi } from 'vitest'
import { RateLimitedError } from '../policy/index.js'
import { MemoryStore } from '../store/internal.js'

import { fakeClock } from '../testing/index.js'
import { pipeline, stage } from './index.js'

it('a stage goes on although another transaction holds the item that met a rate limit', async () => {
  const warned = vi.spyOn(process, 'emitWarning').mockReturnValue()
  onTestFinished(() => warned.mockRestore())
  const clock = fakeClock()
  const store = new MemoryStore({ clock })
  const settle = store.settle.bind(store)
  const failure = new Error('locked')
  let isLocked = true
  store.settle = async settlements => {
    const isHeld = (id: string) => isLocked && id === 'r:000000000000'
    const answers = (await settle(settlements.filter(({ id }) => !isHeld(id)))).values()
    return settlements.map(({ id }) => {
      const answer = isHeld(id) ? undefined : answers.next().value
      return answer ?? { result: 'locked', failure }
    })
  }
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
  isLocked = false
  await clock.advance('2m')
  expect(await over).toMatchObject({ counts: { succeeded: 5 } })
})
