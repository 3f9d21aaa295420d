import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { fingerprint } from './fingerprint.js'
import { NO_RULES, type PatternRule, PatternRules } from './pattern-rules.js'

/** The groups of these messages, by their patterns. */
function patterns(rules: readonly PatternRule[], ...messages: readonly string[]): (string | undefined)[] {
  const compiled = new PatternRules(rules)
  return messages.map(message => compiled.patternOf('k', message))
}

describe('a rule', () => {
  it('merges what masking keeps apart', () => {
    const rules = new PatternRules([{ pattern: 'tenant * is over its limit' }])
    const of = (tenant: string) =>
      fingerprint({ kind: 'k', code: 'E', error: `Error: tenant ${tenant} is over its limit` }, rules)
    expect(of('Blue Sky')).toMatchObject({ errorName: 'Error', pattern: 'tenant * is over its limit' })
    expect(of('Blue Sky').id).toBe(of('Acme').id)
    expect(fingerprint({ kind: 'k', code: 'E', error: 'Error: tenant Acme is over its limit' }).id).not.toBe(of('x').id)
  })

  it('keeps apart what a shorter one, or masking, merges', () => {
    const rules = [{ pattern: 'tenant * is over*' }, { pattern: 'tenant Blue Sky is over its limit' }]
    const messages = ['tenant Blue Sky is over its limit', 'tenant Acme is over its limit', 'tenant Acme is over']
    const [all, one] = ['tenant * is over*', 'tenant Blue Sky is over its limit']
    expect(patterns(rules, ...messages)).toEqual([one, all, all])
    expect(patterns(rules.toReversed(), ...messages)).toEqual([one, all, all])
  })

  it('keeps the text of {*} in the pattern', () => {
    const rules = [{ pattern: 'connect ECONNREFUSED {*}:*' }]
    const messages = ['connect ECONNREFUSED 10.0.0.1:5432', 'connect ECONNREFUSED 10.0.0.2:80', 'connect ETIMEDOUT']
    const [first, second] = ['connect ECONNREFUSED 10.0.0.1:*', 'connect ECONNREFUSED 10.0.0.2:*']
    expect(patterns(rules, ...messages)).toEqual([first, second, undefined])
  })

  it('matches from the beginning to the end', () => {
    expect(patterns([{ pattern: 'b' }], 'abc', 'b', 'b ', '')).toEqual([undefined, 'b', undefined, undefined])
    expect(patterns([{ pattern: 'ab*ba' }], 'aba', 'abba', 'ab-ba')).toEqual([undefined, 'ab*ba', 'ab*ba'])
    expect(patterns([{ pattern: '*' }], '', 'x')).toEqual(['*', '*'])
  })

  it('may be about one kind', () => {
    const rules = new PatternRules([{ kind: 'charge', pattern: 'a *' }, { pattern: 'a *' }])
    expect(rules.patternOf('charge', 'a b')).toBe('a *')
    expect(new PatternRules([{ kind: 'charge', pattern: 'a *' }]).patternOf('mail', 'a b')).toBeUndefined()
  })

  it('makes one group of a bug, wherever it is', () => {
    const bug = (file: string) => ({
      kind: 'k',
      code: 'E',
      error: 'TypeError: x is bad',
      stack: `at f (/app/${file}:1:2)`,
    })
    expect(fingerprint(bug('a.ts')).id).not.toBe(fingerprint(bug('b.ts')).id)
    const rules = new PatternRules([{ pattern: '* is bad' }])
    expect(fingerprint(bug('a.ts'), rules).id).toBe(fingerprint(bug('b.ts'), rules).id)
  })

  it('finds what a regular expression finds', () => {
    const letters = fc.array(fc.constantFrom('a', 'b', '*', '{*}', '.'), { maxLength: 8 }).map(parts => parts.join(''))
    fc.assert(
      fc.property(letters, fc.string({ unit: fc.constantFrom('a', 'b', '.'), maxLength: 12 }), (pattern, message) => {
        const source = pattern.replaceAll('{*}', '*').replaceAll('.', '\\.').replaceAll('*', '.*')
        expect(patterns([{ pattern }], message)[0] !== undefined).toBe(new RegExp(`^${source}$`).test(message))
      }),
    )
  })
})

describe('the grouping', () => {
  it('is the version alone without rules, and depends on the rules, but not on their order', () => {
    const [a, b] = [{ pattern: 'a *' }, { kind: 'k', pattern: 'b *' }]
    expect(NO_RULES.grouping).toBe('1')
    expect(new PatternRules([a, b]).grouping).toMatch(/^1\.[0-9a-f]{12}$/)
    expect(new PatternRules([b, a]).grouping).toBe(new PatternRules([a, b]).grouping)
    expect(new PatternRules([a]).grouping).not.toBe(new PatternRules([a, b]).grouping)
    expect(new PatternRules([{ kind: 'k', ...a }]).grouping).not.toBe(new PatternRules([a]).grouping)
  })
})
