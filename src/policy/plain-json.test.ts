import { describe, expect, it } from 'vitest'
import { plainJson, problemOf } from './plain-json.js'

/** A value within as many objects and arrays. */
function nested(value: unknown, depth: number): unknown {
  let outer = value
  for (let level = 0; level < depth; level++) outer = level % 2 === 0 ? { part: outer } : [outer]
  return outer
}

describe('plainJson', () => {
  const kept: [string, unknown][] = [
    ['a text', 'text'],
    ['null', null],
    ['an object', { a: 1, b: [true, null, 'x'], c: { d: -0.5 }, e: undefined }],
    ['an empty object', {}],
    ['an object without a prototype', Object.assign(Object.create(null), { a: 1 })],
    ['a date', { at: new Date(0) }],
    ['an object that says what its JSON is', { toJSON: () => ({ a: 1 }) }],
    [
      'an instance with fields',
      new (class Point {
        x = 1
      })(),
    ],
    ['an array with holes', Array(3)],
    ['the same object twice', Array(2).fill({ a: 1 })],
  ]
  it.each(kept)('is the JSON of %s, at any depth', (_, value) => {
    for (const depth of [0, 1, 5, 19, 20, 21, 50])
      expect(plainJson(nested(value, depth))).toBe(JSON.stringify(nested(value, depth)))
  })

  it('is undefined for undefined', () => {
    expect(plainJson(undefined)).toBeUndefined()
  })

  const lost: [string, unknown][] = [
    ['NaN', Number.NaN],
    ['a bigint', 1n],
    ['a function', () => {}],
    ['a symbol', Symbol('s')],
    ['a Map', new Map([[1, 2]])],
    ['an error', new Error('e')],
    ['a function that toJSON returns', { toJSON: () => () => {} }],
  ]
  it.each(lost)('refuses %s, at any depth', (_, value) => {
    for (const depth of [0, 1, 5, 19, 20, 21, 50]) expect(() => plainJson(nested(value, depth))).toThrow(TypeError)
  })

  it('names what is lost', () => {
    expect(() => plainJson({ a: new Error('e') })).toThrow("JSON cannot hold the contents of an Error ('a')")
    expect(() => plainJson({ a: new Map([[1, 2]]) })).toThrow("JSON cannot hold the contents of a Map ('a')")
  })

  it('refuses an object that contains itself many times, without visiting it again and again', () => {
    const cyclic: Record<string, unknown> = {}
    for (const name of 'abcdefghij') cyclic[name] = cyclic
    expect(() => plainJson(cyclic)).toThrow(TypeError)
  })
})

it('says what is wrong although a `toJSON` throws a proxy that refuses every question', () => {
  const refuse = () => {
    throw new Error('trap')
  }
  const proxy = new Proxy({}, { get: refuse, getPrototypeOf: refuse })
  expect(problemOf(proxy)).toBe('its `toJSON` threw something that cannot be read')
})
