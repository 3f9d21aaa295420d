import fc from 'fast-check'
import { expect, test } from 'vitest'
import { fingerprint, messagePattern } from './fingerprint.js'
import { PatternRules } from './pattern-rules.js'

const failure = { kind: 'mail', code: 'ECONNREFUSED', error: 'Error: connect ECONNREFUSED 10.0.0.1:25' }
const bug = { kind: 'mail', code: 'TypeError', error: "TypeError: Cannot read properties of undefined (reading 'id')" }

/** A stack as the ledger has it. */
const stack = (...frames: string[]) => frames.map(frame => `at ${frame}`).join('\n')

test('names the class, the pattern and the version of the algorithm', () => {
  expect(fingerprint(failure)).toEqual({
    id: expect.stringMatching(/^1-[0-9a-f]{16}$/),
    kind: 'mail',
    code: 'ECONNREFUSED',
    errorName: 'Error',
    pattern: 'connect ECONNREFUSED *',
    frames: [],
  })
})

// Groups on record have these ids: a change of the algorithm that changes one needs a new version.
test('gives the same id for ever', () => {
  expect(fingerprint(failure).id).toBe('1-257cf125701e3ce3')
  expect(fingerprint({ ...bug, stack: stack('sendMail (src/mail.ts:10:3)') }).id).toBe('1-86e3a5094f365db4')
  expect(fingerprint({ kind: 'mail', code: 'lost', error: undefined }).id).toBe('1-5a3654ea4020246f')
})

test('differs by kind, class, code and pattern, and in nothing else', () => {
  const { id } = fingerprint(failure)
  expect(fingerprint({ ...failure, error: 'Error: connect ECONNREFUSED 10.9.9.9:2525' }).id).toBe(id)
  const others = [
    { ...failure, kind: 'sms' },
    { ...failure, code: 'unknown' },
    { ...failure, code: undefined },
    { ...failure, error: 'NetworkError: connect ECONNREFUSED 10.0.0.1:25' },
    { ...failure, error: 'Error: connect ETIMEDOUT 10.0.0.1:25' },
    { ...failure, error: undefined },
  ]
  expect(new Set([id, ...others.map(other => fingerprint(other).id)]).size).toBe(others.length + 1)
})

test('counts the own frames of a bug, without positions, packages and Node', () => {
  const { frames, id } = fingerprint({
    ...bug,
    stack: stack(
      'Array.map (<anonymous>)',
      'parse (node_modules/zod/index.js:1:2)',
      'async sendMail (src/mail.ts:10:3)',
      'src/worker.ts:7:1',
      'main (src/main.ts:1:1)',
    ),
  })
  expect(frames).toEqual(['async sendMail src/mail.ts', 'src/worker.ts'])
  const moved = stack('async sendMail (src/mail.ts:99:1)', 'src/worker.ts:70:10', 'other (src/other.ts:3:3)')
  expect(fingerprint({ ...bug, stack: moved }).id).toBe(id)
  expect(fingerprint({ ...bug, stack: stack('sendSms (src/sms.ts:10:3)') }).id).not.toBe(id)
})

test('ignores the stack of an outage: one cause stays one group, wherever it is met', () => {
  const { id } = fingerprint(failure)
  expect(fingerprint({ ...failure, stack: stack('sendMail (src/mail.ts:10:3)') }).id).toBe(id)
})

test('takes whatever is on record', () => {
  expect(fingerprint({ kind: 'mail', code: undefined, error: 'string: plain words' })).toMatchObject({
    errorName: 'string',
    pattern: 'plain words',
  })
  expect(fingerprint({ kind: 'mail', code: undefined, error: 'object' })).toMatchObject({
    errorName: 'object',
    pattern: '',
  })
  expect(fingerprint({ kind: 'mail', code: undefined, error: 'no class: 7' })).toMatchObject({
    errorName: '',
    pattern: 'no class: *',
  })
  const any = fc.string({ unit: 'binary', maxLength: 60 })
  fc.assert(
    fc.property(any, any, any, any, (kind, code, error, lines) => {
      const facts = { kind, code, error: `TypeError: ${error}`, stack: lines }
      expect(fingerprint(facts)).toEqual(fingerprint({ ...facts }))
    }),
  )
})

test('takes a fetch that failed for an outage, wherever it was made, and tells causes apart', () => {
  const failed = (cause: string, place: string) =>
    fingerprint({ kind: 'mail', code: 'network', error: `TypeError: fetch failed: ${cause}`, stack: stack(place) }).id
  const refused = failed('connect ECONNREFUSED 10.0.0.1:25', 'sendMail (src/mail.ts:10:3)')
  expect(failed('connect ECONNREFUSED 10.0.0.2:2525', 'sendAll (src/all.ts:1:1)')).toBe(refused)
  expect(failed('other side closed', 'sendMail (src/mail.ts:10:3)')).not.toBe(refused)
})

test('tells the steps of a task apart, but not those of a loop, and rules see their messages alone', () => {
  const at = (step: string) => ({ ...failure, error: `Error: step '${step}': connect ECONNREFUSED 10.0.0.1:25` })
  const charge = fingerprint(at('charge'))
  expect(charge).toMatchObject({ errorName: 'Error', pattern: "step 'charge': connect ECONNREFUSED *" })
  expect(messagePattern(charge.pattern)).toBe('connect ECONNREFUSED *')
  expect(new Set([failure, at('charge'), at('mail')].map(one => fingerprint(one).id)).size).toBe(3)
  expect(fingerprint(at('page:7'))).toEqual(fingerprint(at('page:12')))
  const rules = new PatternRules([{ pattern: 'connect *' }])
  expect(fingerprint(at('charge'), rules).pattern).toBe("step 'charge': connect *")
  expect(fingerprint({ ...failure, error: "Error: step 'charge'" }).pattern).toBe("step 'charge': ")
})
