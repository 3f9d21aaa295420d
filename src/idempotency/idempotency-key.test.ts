import { createHash } from 'node:crypto'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { OptionError } from '../policy/index.js'
import { checkKey, fingerprint } from './idempotency-key.js'
import { IdempotencyKeyError, IdempotencyParamsError, idempotencyKey } from './index.js'

const operation = 'charge card'

/** The same data with the keys of every object in the opposite order. */
function reversed(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(reversed)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value)
      .reverse()
      .map(([key, part]) => [key, reversed(part)]),
  )
}

describe('an idempotency key', () => {
  it('is the SHA-256 of the canonical JSON of its parts', () => {
    const json =
      '{"correlationId":"c","operation":"charge card","params":{"a":[1,{"x":1,"y":2}],"b":null},"tenantId":"t"}'
    const params = { b: null, a: [1, { y: 2, x: 1 }] }
    expect(idempotencyKey({ operation, tenantId: 't', correlationId: 'c', params })).toBe(
      createHash('sha256').update(json).digest('hex'),
    )
  })

  it('does not depend on the order of keys at any depth', () => {
    const data = fc.dictionary(fc.string(), fc.jsonValue())
    fc.assert(
      fc.property(data, params => {
        const key = idempotencyKey({ operation, params })
        expect(key).toMatch(/^[0-9a-f]{64}$/)
        expect(idempotencyKey({ operation, params: reversed(params) })).toBe(key)
      }),
    )
  })

  it('is the same for a missing tenant, correlation id or parameters and for empty ones', () => {
    const key = idempotencyKey({ operation })
    expect(idempotencyKey({ operation, tenantId: '', correlationId: '', params: {} })).toBe(key)
    expect(idempotencyKey({ operation, tenantId: undefined, params: undefined })).toBe(key)
  })

  it('differs with every part, and does not mistake one part for another', () => {
    const keys = [
      idempotencyKey({ operation }),
      idempotencyKey({ operation: 'refund' }),
      idempotencyKey({ operation, tenantId: 'a' }),
      idempotencyKey({ operation, correlationId: 'a' }),
      idempotencyKey({ operation, params: { a: 1 } }),
      idempotencyKey({ operation, params: { a: '1' } }),
      idempotencyKey({ operation, params: { a: [1] } }),
      idempotencyKey({ operation, params: { a: null } }),
    ]
    expect(new Set(keys).size).toBe(keys.length)
  })

  const cyclic: Record<string, unknown> = {}
  cyclic.self = cyclic
  it.each([
    ['a bigint', { cents: 1n }, /JSON cannot hold a bigint \('cents'\)/],
    ['NaN', { cents: Number.NaN }, /JSON cannot hold NaN/],
    ['a function', { then: () => 1 }, /JSON cannot hold a function/],
    ['a symbol', { s: Symbol('x') }, /JSON cannot hold a symbol/],
    ['a Map', { items: new Map([[1, 2]]) }, /the contents of a Map \('items'\)/],
    ['a Set, deep inside', { order: [{ items: new Set([1]) }] }, /the contents of a Set \('items'\)/],
    ['an object that contains itself', cyclic, /circular/],
    ['half a character', { name: '\ud800' }, /lone surrogate/],
  ])('is refused for parameters with %s', (_what, params, message) => {
    const make = () => idempotencyKey({ operation, params })
    expect(make).toThrow(IdempotencyParamsError)
    expect(make).toThrow(message)
    expect(make).toThrow(/'charge card'/)
  })

  it('takes dates and other values that have JSON of their own', () => {
    const at = new Date(0)
    expect(idempotencyKey({ operation, params: { at } })).toBe(
      idempotencyKey({ operation, params: { at: '1970-01-01T00:00:00.000Z' } }),
    )
  })

  it('needs an operation', () => {
    expect(() => idempotencyKey({ operation: '' })).toThrow(OptionError)
  })
})

describe('a key of the caller’s own', () => {
  it('may have from 1 to 255 characters', () => {
    expect(() => checkKey('k')).not.toThrow()
    expect(() => checkKey('k'.repeat(255))).not.toThrow()
  })

  it.each([
    ['empty', '', /is empty/],
    ['not text', 42, /42: it must be text/],
    ['missing', undefined, /undefined: it must be text/],
    ['too long', 'k'.repeat(256), /'k{47}…k{16}' \(256 characters\): it has more than 255/],
    ['with a line break', 'a\nb', /'a\\nb': it contains control characters/],
    ['with half a character', 'a\udc00', /unpaired surrogates/],
  ])('is refused when it is %s', (_what, key, message) => {
    const check = () => checkKey(key)
    expect(check).toThrow(IdempotencyKeyError)
    expect(check).toThrow(message)
    expect(check).toThrow(expect.objectContaining({ code: 'idempotency_key_invalid' }))
  })
})

it('the fingerprint of missing parameters is that of empty ones', () => {
  expect(fingerprint('k', undefined)).toBe(fingerprint('k', {}))
  expect(fingerprint('k', undefined)).not.toBe(fingerprint('k', []))
})
