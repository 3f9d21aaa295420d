import { createHash } from 'node:crypto'
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { eventKey, keyFrom } from './event-key.js'

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

it('gives no two lists of ids the same key', () => {
  const hashOf = (ids: string[]) => eventKey('s', ids).slice(2)
  const long = (text: string) => text + 'x'.repeat(100)
  const lists = [
    ['a', 'b'],
    ['a-b'],
    ['a-b', 'c'],
    ['a', 'b-c'],
    ['a', 'b', 'c'],
    ['a-b-c'],
    ['-'],
    ['-', '-'],
    ['---'],
    // An id that is the hash of another list.
    [hashOf(['a-b'])],
    [hashOf([hashOf(['a-b'])])],
    [hashOf([long('a')])],
    [long('a')],
    [long('a'), 'b'],
    [`${long('a')}-b`],
    // Joined, it is the JSON of the list above it.
    [`["${long('a')}`, 'b"]'],
  ]
  const different = new Set(lists.map(ids => JSON.stringify(ids)))
  expect(new Set(lists.map(ids => eventKey('s', ids))).size).toBe(different.size)
})

it('hashes ids with the separator in them, whatever their length, and leaves the others as they are', () => {
  expect(eventKey('s', ['a-b'])).toMatch(/^s-[0-9a-f]{16}$/)
  expect(eventKey('s', ['1b4e28ba-2fa1-11d2-883f-0016d3cca427'])).toMatch(/^s-[0-9a-f]{16}$/)
  expect(eventKey('order-service', ['a_b', 'c.d', '0016d3cca427'])).toBe('order-service-a_b-c.d-0016d3cca427')
})

it('gives lists that look the same when joined different keys', () => {
  const list = fc.array(fc.stringMatching(/^[ab-]{1,3}$/), { minLength: 1, maxLength: 4 })
  fc.assert(
    fc.property(list, ids => {
      const [first = '', ...rest] = ids.join('-').split(/(?<=[^-])-(?=[^-])/)
      for (const other of [[ids.join('-')], [first, ...rest]]) {
        const isSame = JSON.stringify(ids) === JSON.stringify(other)
        expect(eventKey('s', ids) === eventKey('s', other)).toBe(isSame)
      }
    }),
  )
})

it('may be a text as it is, where a consumer gives one', () => {
  expect(keyFrom('s', ['a', 'b'])).toBe('s-a-b')
  expect(keyFrom('s', 'theirs-42')).toBe('theirs-42')
  expect(() => keyFrom('s', '')).toThrow(/must not be empty/)
})

it.each([
  ['', ['a']],
  ['s', []],
  ['s', ['a', '']],
])('refuses the service %j with the ids %j', (service, ids) => {
  expect(() => eventKey(service, ids)).toThrow(/needs at least one id|must name the service/)
})
