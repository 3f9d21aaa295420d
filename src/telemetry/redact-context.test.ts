import fc from 'fast-check'
import { expect, test } from 'vitest'
import { cpuTime } from '../../test/cpu-time.js'
import { redactContext } from './redact-context.js'

test('replaces values under keys that look secret, however deep', () => {
  const context = {
    user: 'ada',
    Password: 'p',
    nested: { apiKey: 'k', list: [{ access_token: { value: 't' } }] },
    headers: new Map([['Authorization', 'Bearer abc']]),
    dsn: 'postgres://app:hunter2@db/x',
  }
  expect(redactContext(context)).toEqual({
    user: 'ada',
    Password: '[redacted]',
    nested: { apiKey: '[redacted]', list: [{ access_token: '[redacted]' }] },
    headers: { Authorization: '[redacted]' },
    dsn: 'postgres://app:[redacted]@db/x',
  })
})

test('says whether there is a secret or not', () => {
  expect(redactContext({ password: null, hasToken: true })).toEqual({ password: null, hasToken: true })
})

test('gives what JSON can hold of everything else', () => {
  const context = {
    date: new Date(0),
    never: new Date(Number.NaN),
    url: new URL('https://user:pass@host/x'),
    bytes: Buffer.alloc(10_000_000),
    big: 10n,
    odd: [Number.NaN, Infinity, undefined, () => 1, Symbol('s')],
    failure: new TypeError('no'),
    set: new Set([1, 2]),
  }
  expect(redactContext(context)).toEqual({
    date: '1970-01-01T00:00:00.000Z',
    never: '[invalid date]',
    url: 'https://user:[redacted]@host/x',
    bytes: '[10000000 bytes]',
    big: '10',
    odd: ['NaN', 'Infinity', null, '[function]', '[symbol]'],
    failure: 'TypeError: no',
    set: [1, 2],
  })
  expect(redactContext(undefined)).toBe(null)
})

test('never throws, and reads what can be read', () => {
  const throwing = () => {
    throw new Error('trap')
  }
  const cyclic: Record<string, unknown> = { a: 1 }
  cyclic.self = cyclic
  expect(redactContext(cyclic)).toEqual({ a: 1, self: '[circular]' })
  expect(redactContext({ good: 1, bad: new Proxy({}, { ownKeys: throwing, getPrototypeOf: throwing }) })).toEqual({
    good: 1,
    bad: '[unreadable]',
  })
  const hidden = Object.defineProperty({ good: 1 }, 'bad', { enumerable: true, get: throwing })
  expect(redactContext(hidden)).toEqual({ good: 1, bad: '[unreadable]' })
})

test('takes a key called __proto__ for a key', () => {
  const copy = redactContext(JSON.parse('{"__proto__":{"admin":true}}'))
  expect(JSON.stringify(copy)).toBe('{"__proto__":{"admin":true}}')
  expect(Object.getPrototypeOf(copy)).toBe(Object.prototype)
})

test('bounds depth, width and size', () => {
  const wide = (of: unknown) => Array.from({ length: 1000 }, () => of)
  let bushy: unknown = 1
  let deep: unknown = 1
  for (let i = 0; i < 5; i++) bushy = wide(bushy)
  for (let i = 0; i < 100; i++) deep = { deep }
  const texts = wide('x'.repeat(100_000))
  const keys = Object.fromEntries(Array.from({ length: 10_000 }, (_, i) => [`${i}${'k'.repeat(1000)}`, i]))
  for (const huge of [bushy, deep, texts, keys]) {
    const redacted = () => expect(JSON.stringify(redactContext(huge)).length).toBeLessThan(40_000)
    expect(cpuTime(redacted)).toBeLessThan(1000)
  }
  expect(redactContext(wide(1))).toHaveLength(101)
  expect(JSON.stringify(redactContext(wide(1)))).toContain('[900 more]')
})

test('gives JSON for anything, and the same for the same', () => {
  fc.assert(
    fc.property(fc.anything({ withMap: true, withSet: true, withDate: true, withBigInt: true }), value => {
      const json = JSON.stringify(redactContext(value))
      expect(JSON.stringify(JSON.parse(json))).toBe(json)
      expect(JSON.stringify(redactContext(value))).toBe(json)
    }),
  )
})
