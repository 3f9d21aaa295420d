import { createHash } from 'node:crypto'
import { expect, it } from 'vitest'
import { eventKey } from './event-key.js'

it('joins the service and all the ids', () => {
  expect(eventKey('chunking', ['a', 'b', 'c', 'd', 'e'])).toBe('chunking-a-b-c-d-e')
})

it('hashes ids that are longer than 100 characters when joined, and no others', () => {
  const hundred = 'x'.repeat(100)
  expect(eventKey('s', [hundred])).toBe(`s-${hundred}`)
  const longer = ['x'.repeat(50), 'y'.repeat(50)]
  const hash = createHash('sha256').update(longer.join('-')).digest('hex')
  expect(eventKey('s', longer)).toBe(`s-${hash.slice(0, 16)}`)
})

it.each([
  ['', ['a']],
  ['s', []],
  ['s', ['a', '']],
])('refuses the service %j with the ids %j', (service, ids) => {
  expect(() => eventKey(service, ids)).toThrow(/needs at least one id|must name the service/)
})
