import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { cpuTime } from '../../test/cpu-time.js'
import { describeFailure, failureText } from './describe-failure.js'
import { redact } from './redact.js'

describe('describeFailure', () => {
  test('gives the name and the message of an error', () => {
    expect(describeFailure(new TypeError('no'))).toEqual({ name: 'TypeError', message: 'no' })
    expect(failureText(new TypeError('no'))).toBe('TypeError: no')
  })

  test('redacts the name of an error, which is text of the user too', () => {
    const named = Object.assign(new Error('no'), { name: 'Failed: postgres://app:pw@db/x' })
    expect(failureText(named)).toBe('Failed: postgres://app:[redacted]@db/x: no')
  })

  test('gives the code of an error that has no message', () => {
    const refused = Object.assign(new AggregateError([new Error('::1'), new Error('127.0.0.1')]), {
      code: 'ECONNREFUSED',
    })
    expect(failureText(refused)).toBe('AggregateError: ECONNREFUSED')
  })

  test('adds the innermost cause, unless the message has it', () => {
    const refused = Object.assign(new Error('connect ECONNREFUSED 127.0.0.1:1'), { code: 'ECONNREFUSED' })
    const failed = new TypeError('fetch failed', { cause: refused })
    expect(failureText(failed)).toBe('TypeError: fetch failed: connect ECONNREFUSED 127.0.0.1:1')
    expect(failureText(new Error('No answer', { cause: failed }))).toBe(
      'Error: No answer: connect ECONNREFUSED 127.0.0.1:1',
    )
    const told = new Error('Could not pay: connect ECONNREFUSED 127.0.0.1:1.', { cause: failed })
    expect(failureText(told)).toBe('Error: Could not pay: connect ECONNREFUSED 127.0.0.1:1.')
    const onlyCode = Object.assign(new AggregateError([refused]), { code: 'ECONNREFUSED' })
    expect(failureText(new TypeError('fetch failed', { cause: onlyCode }))).toBe(
      'TypeError: fetch failed: ECONNREFUSED',
    )
    expect(failureText(new Error('', { cause: refused }))).toBe('Error: connect ECONNREFUSED 127.0.0.1:1')
    expect(failureText(new Error('x', { cause: 'words' }))).toBe('Error: x')
  })

  test('redacts the cause like the message', () => {
    const failure = new Error('No answer', { cause: new Error('postgres://app:hunter2@db/orders is down') })
    expect(failureText(failure)).not.toContain('hunter2')
  })

  test('gives what can be told of other shapes', () => {
    expect(failureText({ message: 'gone', status: 410 })).toBe('object: gone 410')
    expect(failureText({ name: 'HttpError', statusCode: 503 })).toBe('HttpError: 503')
    expect(failureText('plain words')).toBe('string: plain words')
    expect(failureText(429)).toBe('number: 429')
    expect(failureText(null)).toBe('object: null')
    expect(failureText(undefined)).toBe('undefined: undefined')
    expect(failureText(Symbol('odd'))).toBe('symbol: Symbol(odd)')
    expect(failureText({})).toBe('object')
  })

  test('never throws, whatever was thrown', () => {
    const throwing = () => {
      throw new Error('trap')
    }
    const cyclic: Record<string, unknown> = { message: 'round' }
    cyclic.cause = cyclic
    const revoked = Proxy.revocable({}, {})
    revoked.revoke()
    const failures: unknown[] = [
      cyclic,
      revoked.proxy,
      new Proxy(new Error('x'), { get: throwing }),
      new Proxy({}, { get: throwing, getPrototypeOf: throwing, has: throwing, ownKeys: throwing }),
      new Proxy(() => 1, { get: throwing }),
      Object.create(null),
      Object.defineProperty(new Error('x'), 'message', { get: throwing }),
      Object.assign(new Error('x'), { name: Symbol('s') }),
      Object.assign(new Error(), { message: { toString: throwing } }),
    ]
    for (const failure of failures) {
      const { name, message } = describeFailure(failure)
      expect([typeof name, typeof message]).toEqual(['string', 'string'])
    }
    fc.assert(fc.property(fc.anything({ withNullPrototype: true }), failure => void failureText(failure)))
  })

  test('keeps what one property hides from hiding the others', () => {
    const failure = Object.defineProperty(new RangeError('x'), 'message', {
      get: () => {
        throw new Error('trap')
      },
    })
    expect(describeFailure(failure)).toEqual({ name: 'RangeError', message: '' })
  })

  test('is bounded, and says how long the message was', () => {
    const { message } = describeFailure(new Error('y'.repeat(10_000_000)))
    expect(message).toBe(`${'y'.repeat(1000)}… (10000000 characters)`)
    expect(describeFailure(Object.assign(new Error('x'), { name: 'N'.repeat(5000) })).name.length).toBeLessThan(130)
  })

  test('stays on one line, and drives no terminal', () => {
    const text = failureText(new Error('one\r\ntwo\u2028three\tfour \u001b[31mred\u009b31m \u202eesrever \0 \ud800.'))
    expect(text).toBe('Error: one two three four \ufffd[31mred\ufffd31m \ufffdesrever \ufffd \ufffd.')
  })

  test('does not cut a character in two', () => {
    expect(redact(`${'a'.repeat(999)}😀 and more`)).toBe(`${'a'.repeat(999)}… (1010 characters)`)
    expect(redact('fine 😀')).toBe('fine 😀')
  })
})

describe('redact', () => {
  const secret = 'S3cr3tV4lue'
  const texts = [
    `postgres://app:${secret}@db.internal:5432/orders`,
    `redis://:${secret}@cache`,
    `amqp://user:p@ss${secret}@rabbit/vhost`,
    `Authorization: Bearer ${secret}`,
    `authorization=Basic ${secret}`,
    `{"Authorization":"Bearer ${secret}"}`,
    `sent header bearer ${secret}.${secret}`,
    `password=${secret}&user=x`,
    `password = "two words ${secret}"`,
    `{"password":"a\\"${secret}"}`,
    `"{\\"password\\":\\"${secret}\\"}"`,
    `passphrase: '${secret}'`,
    `api_key=${secret}`,
    `apiKey: ${secret}`,
    `X-Api-Key: ${secret}`,
    `AWS_SECRET_ACCESS_KEY=${secret}`,
    `client_secret=${secret}`,
    `https://host/path?access_token=${secret}&x=1`,
    `Cookie: theme=dark; session=${secret}; x=y`,
    `Set-Cookie: sid=${secret}; Path=/`,
    `credentials=${secret}`,
    `-----BEGIN RSA PRIVATE KEY-----\n${secret}\n-----END RSA PRIVATE KEY-----`,
    `token was eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIx${secret}.sig${secret}`,
    `git clone failed: ghp_${secret}abcdefgh`,
  ]
  for (const text of texts) {
    test(`leaves the secret out of ${JSON.stringify(text.replaceAll(secret, '***'))}`, () => {
      expect(redact(text)).not.toContain(secret)
      expect(redact(text)).toContain('[redacted]')
    })
  }

  test('leaves a secret out that stands where the text is cut', () => {
    for (let before = 950; before <= 1005; before++) {
      expect(redact(`${'a '.repeat(before / 2)}postgres://app:${secret}@db`)).not.toContain('S3c')
    }
  })

  test('leaves ordinary messages as they are', () => {
    for (const text of [
      'connect ECONNREFUSED 127.0.0.1:5432',
      'GET https://api.example.com:8443/users/1?page=2 failed with 503',
      'Basic authentication is required',
      'Unexpected token } in JSON at position 4',
      'The password is wrong',
      'user a@b.example was not found at http://host:80/x',
    ]) {
      expect(redact(text)).toBe(text)
    }
  })

  test('takes no longer for texts made to be slow', () => {
    const pieces = [
      'a',
      'a.',
      '://',
      '://a:',
      'bearer ',
      'basic\t',
      'password',
      'password ',
      'secret"',
      'token=" ',
      'token=\\',
      "pwd='\\",
      'cookie ',
      'eyJaaaaaaaa-',
      'eyJaaaaaaaa.',
      'sk-',
      '-----BEGIN PRIVATE KEY-----',
      '-----BEGIN ',
      ' ',
      '\n',
      '\ud83d',
    ]
    for (const piece of pieces) {
      const text = piece.repeat(10_000_000 / piece.length)
      expect(
        cpuTime(() => redact(text)),
        JSON.stringify(piece),
      ).toBeLessThan(500)
    }
  })
})
