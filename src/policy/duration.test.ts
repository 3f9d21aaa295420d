import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { cpuTime } from '../../test/cpu-time.js'
import { formatDuration, MAX_DURATION_MS, parseDuration } from './duration.js'

describe('parsing a duration', () => {
  it.each<[unknown, number]>([
    [0, 0],
    [250, 250],
    [1.4, 1],
    [1.5, 2],
    ['0ms', 0],
    ['250ms', 250],
    ['1.5s', 1500],
    ['0.0004s', 0],
    ['5m', 300_000],
    ['1h', 3_600_000],
    ['24h', 86_400_000],
    ['7d', 604_800_000],
    ['36500d', MAX_DURATION_MS],
    [MAX_DURATION_MS, MAX_DURATION_MS],
  ])('%j is %d ms', (value, expected) => {
    expect(parseDuration(value)).toBe(expected)
  })

  it.each<unknown>([
    ...[-1, -0.1, NaN, Infinity, -Infinity, MAX_DURATION_MS + 1, 1e300],
    ...[
      '',
      '5',
      's',
      '-5s',
      '+5s',
      '5 s',
      ' 5s',
      '5s ',
      '5S',
      '5sec',
      '5s5s',
      '1h 30m',
      '1e3ms',
      '0x5s',
      '.5s',
      '5.s',
      '1,5s',
    ],
    ...['NaNs', 'Infinitys', '36501d', '٥s', '5s\n', `${'9'.repeat(400)}d`],
    ...[null, undefined, true, 5n, [], ['5s'], {}, new Date(), () => 5, Symbol('5s')],
  ])('%o is none', value => {
    expect(parseDuration(value)).toBeUndefined()
  })

  it('is whole and within a hundred years, or none, for any value', () => {
    const textual = fc.tuple(fc.float(), fc.constantFrom('ms', 's', 'm', 'h', 'd')).map(([n, unit]) => `${n}${unit}`)
    fc.assert(
      fc.property(fc.oneof(fc.anything(), fc.double(), textual), value => {
        const ms = parseDuration(value)
        if (ms === undefined) return
        expect(Number.isSafeInteger(ms)).toBe(true)
        expect(ms >= 0 && ms <= MAX_DURATION_MS).toBe(true)
        expect(parseDuration(ms) === ms).toBe(true)
        expect(parseDuration(`${ms}ms`) === ms).toBe(true)
      }),
      { numRuns: 500 },
    )
  })

  it('does not dwell on long text', () => {
    for (const text of ['1'.repeat(1e6), `${'1'.repeat(1e6)}.`, '1.'.repeat(5e5), `1${' '.repeat(1e6)}s`]) {
      const parsed = () => expect(parseDuration(text)).toBeUndefined()
      expect(cpuTime(parsed)).toBeLessThan(1000)
    }
  })

  it('keeps any time computed from one a valid date', () => {
    expect(new Date(Date.UTC(2100, 0, 1) + 1000 * MAX_DURATION_MS).getTime()).not.toBeNaN()
  })
})

describe('writing a duration', () => {
  it.each([
    [0, '0ms'],
    [1, '1ms'],
    [250, '250ms'],
    [0.4, '0ms'],
    [999, '999ms'],
    [999.6, '1s'],
    [1000, '1s'],
    [1500, '1.5s'],
    [1234, '1.23s'],
    [59_900, '59.9s'],
    [59_999, '1m'],
    [60_000, '1m'],
    [61_000, '1m 1s'],
    [90_000, '1m 30s'],
    [3_540_000, '59m'],
    [3_599_400, '59m 59s'],
    [3_599_999, '1h'],
    [3_600_000, '1h'],
    [5_400_000, '1h 30m'],
    [86_399_999, '1d'],
    [86_400_000, '1d'],
    [90_000_000, '1d 1h'],
    [604_800_000, '7d'],
    [MAX_DURATION_MS, '36500d'],
  ])('%d ms is %s', (ms, expected) => {
    expect(formatDuration(ms)).toBe(expected)
  })

  it('is true to the value, to half of its smaller unit', () => {
    const units: Record<string, number> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 }
    fc.assert(
      fc.property(fc.oneof(fc.nat(100_000), fc.nat(1e8), fc.integer({ min: 0, max: MAX_DURATION_MS })), ms => {
        const parts = [...formatDuration(ms).matchAll(/([\d.]+)(ms|s|m|h|d)/g)]
        const said = parts.reduce((sum, [, amount, unit]) => sum + Number(amount) * (units[unit ?? ''] ?? NaN), 0)
        const precision = ms < 1000 ? 0 : ms < 60_000 ? 5 : ms < 3_600_000 ? 500 : ms < 86_400_000 ? 30_000 : 1_800_000
        expect(Math.abs(said - ms)).toBeLessThanOrEqual(precision)
      }),
    )
  })
})
