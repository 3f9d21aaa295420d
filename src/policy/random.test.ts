import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { identityRandom } from './random.js'

describe('the random number of an identity and an attempt', () => {
  it('never changes, so that a decision on record can be recomputed by a later version', () => {
    expect(identityRandom('', 1)).toBe(0.5466997881885618)
    expect(identityRandom('task-1', 1)).toBe(0.016801075544208288)
    expect(identityRandom('task-1', 2)).toBe(0.9375867904163897)
    expect(identityRandom('Größe 🚀', 3)).toBe(0.03164298995397985)
  })

  it('lies in [0, 1) for any identity and attempt', () => {
    const identities = fc.array(fc.nat(0xffff)).map(units => String.fromCharCode(...units))
    fc.assert(
      fc.property(identities, fc.integer({ min: 1, max: 10_000 }), (identity, attempt) => {
        const random = identityRandom(identity, attempt)
        expect(random).toBeGreaterThanOrEqual(0)
        expect(random).toBeLessThan(1)
        expect(identityRandom(identity, attempt)).toBe(random)
      }),
    )
  })

  it('differs from attempt to attempt and from identity to identity', () => {
    const identities = ['a', 'b', 'ab', 'ba', 'task-1', 'task-2', 'task-10']
    const drawn = identities.flatMap(identity => [1, 2, 3, 4].map(attempt => identityRandom(identity, attempt)))
    expect(new Set(drawn).size).toBe(drawn.length)
  })

  it.each([
    ['work that differs by a number', (i: number) => identityRandom(`task-${i}`, 1)],
    ['the attempts of one piece of work', (i: number) => identityRandom('task-1', i + 1)],
    [
      'work named by time-ordered ids',
      (i: number) => identityRandom(`0190f3a2-${i.toString(16).padStart(4, '0')}-7c`, 2),
    ],
  ])('spreads %s evenly', (_, draw) => {
    const [count, cells] = [20_000, 20]
    const found = Array<number>(cells).fill(0)
    for (let i = 0; i < count; i++) {
      const cell = Math.floor(draw(i) * cells)
      found[cell] = (found[cell] ?? 0) + 1
    }
    const expected = count / cells
    const chiSquare = found.reduce((sum, n) => sum + (n - expected) ** 2 / expected, 0)
    expect(chiSquare).toBeLessThan(43.8) // exceeded once in a thousand by numbers that are truly random
  })

  it('of one attempt says nothing about the next', () => {
    const pairs = Array.from(
      { length: 5000 },
      (_, i) => [identityRandom(`w${i}`, 1), identityRandom(`w${i}`, 2)] as const,
    )
    const covariance = pairs.reduce((sum, [a, b]) => sum + (a - 0.5) * (b - 0.5), 0) / pairs.length
    expect(Math.abs(covariance * 12)).toBeLessThan(0.05) // 12: a uniform number's variance is 1/12
  })
})
