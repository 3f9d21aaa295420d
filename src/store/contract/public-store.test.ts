import { afterAll, describe, expect, it, vi } from 'vitest'
import { TaskQueue } from '../../task/index.js'
import { MemoryStore, type Store } from '../index.js'
import { contractOf } from './public-store.js'

it('is its own contract', () => {
  const store = new MemoryStore()
  expect(contractOf(store)).toBe(store)
})

it.each([
  ['undefined', undefined],
  ["'postgres://host/app'", 'postgres://host/app'],
  ['an object', { enqueue: () => {} }],
  ['a function', MemoryStore],
])('%s is none', (got, value) => {
  expect(() => contractOf(value as unknown as Store)).toThrow(`resolved with; got ${got}.`)
})

describe('a store of another copy of the package', () => {
  afterAll(() => vi.resetModules())

  it('is refused, with the cause and what to do', async () => {
    vi.resetModules()
    const other = await import('../index.js')
    const store = new other.MemoryStore()
    expect(() => new TaskQueue(store)).toThrow(
      "This store belongs to another copy of the package 'redrive': the program has loaded two. See where they are with `npm ls redrive`, and keep one.",
    )
  })
})
