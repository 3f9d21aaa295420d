import { expect, it } from 'vitest'
import { sumOfCosts } from './sum-of-costs.js'

it('adds costs up bucket by bucket, whatever their names', () => {
  const odd = Object.fromEntries([['__proto__', 1]])
  expect(sumOfCosts([{ tokens: 1, toString: 2 }, { tokens: 4 }, {}])).toEqual({ tokens: 5, toString: 2 })
  expect(Object.entries(sumOfCosts([odd, odd]))).toEqual([['__proto__', 2]])
})

it('stays finite, as an amount on record must', () => {
  expect(sumOfCosts([{ tokens: 1e308 }, { tokens: 1e308 }])).toEqual({ tokens: Number.MAX_VALUE })
})
