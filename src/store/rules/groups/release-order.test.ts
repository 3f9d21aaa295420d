import { expect, it } from 'vitest'
import { isAtOrAfter } from './release-order.js'

/** In the order of their precedence, as semver.org has it. */
const ORDER = [
  '0.9.10',
  '1.0.0-0',
  '1.0.0-alpha',
  '1.0.0-alpha.1',
  '1.0.0-alpha.beta',
  '1.0.0-beta.2',
  '1.0.0-beta.11',
  '1.0.0-rc.1',
  '1.0.0',
  '1.0.1-x',
  '1.0.10',
  '1.2.0',
  '1.10.0',
  '10.0.0',
]

it('semantic versions are ordered by their precedence', () => {
  for (const [a, release] of ORDER.entries())
    for (const [b, other] of ORDER.entries()) expect(isAtOrAfter(release, other), `${release} >= ${other}`).toBe(a >= b)
})

it('a leading v and the build do not matter', () => {
  expect(isAtOrAfter('v1.8.0+42', '1.8.0')).toBe(true)
  expect(isAtOrAfter('1.8.0', 'v1.8.0+42')).toBe(true)
})

it('releases that are no semantic versions have no order', () => {
  for (const release of ['1.8', '9c2f0b7', '2026-11-16', '', '1.8.0.1', '1.8.0-'])
    expect(isAtOrAfter(release, '1.8.0')).toBeUndefined()
})
