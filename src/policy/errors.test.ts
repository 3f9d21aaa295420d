import { describe, expect, it } from 'vitest'
import { classify } from './classify.js'
import { OptionError, PolicyError, RedriveError, RetryableError, TimeoutError } from './errors.js'
import { FinalError } from './final-error.js'
import * as kernel from './index.js'
import { MissingPackageError } from './missing-package-error.js'
import { policy } from './parse.js'
import { RateLimitedError } from './rate-limited-error.js'

const MADE = {
  RedriveError: new RedriveError('some_code', 'x'),
  PolicyError: new PolicyError('attempts', 'x'),
  OptionError: new OptionError('random', 'x'),
  FinalError: new FinalError('x'),
  MissingPackageError: new MissingPackageError('x', 'pg', '^8'),
  RetryableError: new RetryableError('x'),
  RateLimitedError: new RateLimitedError('x'),
  TimeoutError: new TimeoutError('x', { timeoutMs: 5 }),
}

describe('every error of the kernel', () => {
  it('is made here', () => {
    const errors = Object.keys(kernel).filter(name => name.endsWith('Error'))
    expect(Object.keys(MADE).sort()).toEqual(errors.sort())
  })

  it.each(Object.entries(MADE))('%s has its name, a stable code and one base class', (name, error) => {
    expect(error).toBeInstanceOf(RedriveError)
    expect(error.name).toBe(name)
    expect(String(error)).toMatch(new RegExp(`^${name}: `))
    expect(error.code).toMatch(/^[a-z_]+$/)
    expect(error.message).toContain('x')
  })

  it.each([
    ['RedriveError', (cause: unknown) => new RedriveError('c', 'x', { cause })],
    ['FinalError', (cause: unknown) => new FinalError('x', { cause })],
    ['RetryableError', (cause: unknown) => new RetryableError('x', { cause })],
    ['RateLimitedError', (cause: unknown) => new RateLimitedError('x', { cause })],
    ['TimeoutError', (cause: unknown) => new TimeoutError('x', { cause, timeoutMs: 5 })],
  ])('%s keeps its cause', (_, make) => {
    const cause = new Error('behind it')
    expect(make(cause).cause).toBe(cause)
    expect('cause' in new RetryableError('x')).toBe(false)
  })
})

describe('a subclass', () => {
  class DocumentNotFoundError extends RetryableError {}
  class InvalidDocumentError extends FinalError {}

  it('is reported under its own name, which is its code too unless it has one', () => {
    expect(new DocumentNotFoundError('x')).toMatchObject({
      name: 'DocumentNotFoundError',
      code: 'DocumentNotFoundError',
    })
    expect(new InvalidDocumentError('x')).toMatchObject({ name: 'InvalidDocumentError', code: 'InvalidDocumentError' })
    expect(new DocumentNotFoundError('x', { code: 'not_yet' })).toMatchObject({
      name: 'DocumentNotFoundError',
      code: 'not_yet',
    })
    expect(String(new DocumentNotFoundError('x'))).toBe('DocumentNotFoundError: x')
  })

  it('may name itself, in each way that people do', () => {
    class OnPrototype extends RetryableError {
      override get name() {
        return 'Named'
      }
    }
    class InConstructor extends RetryableError {
      constructor(message: string) {
        super(message)
        Object.assign(this, { name: 'Named' }) // this.name = 'Named', in JavaScript
      }
    }
    const later = Object.assign(new RetryableError('x'), { name: 'Named' })
    for (const error of [new OnPrototype('x'), new InConstructor('x'), later]) {
      expect(error.name).toBe('Named')
      expect(classify(error, policy({ giveUpOn: ['Named'] }), 0).class).toBe('final')
    }
  })
})

describe('what an error carries', () => {
  it('PolicyError: the field', () => {
    expect(MADE.PolicyError).toMatchObject({ field: 'attempts', code: 'invalid_policy' })
  })

  it('OptionError: the option', () => {
    expect(MADE.OptionError).toMatchObject({ option: 'random', code: 'invalid_option' })
  })

  it('MissingPackageError: what to run, whether the package is not there or does not load', () => {
    const missing = Object.assign(new Error("Cannot find package 'pg'"), { code: 'ERR_MODULE_NOT_FOUND' })
    expect(new MissingPackageError('The store', 'pg', '^8', { cause: missing }).message).toBe(
      "The store needs the package 'pg', which is not installed. Run: npm install pg@^8",
    )
    const unbuilt = new Error('Could not locate the bindings file. Tried:\n → build/pg.node')
    expect(new MissingPackageError('The store', 'pg', '^8', { cause: unbuilt }).message).toBe(
      "The store needs the package 'pg', which does not load (Could not locate the bindings file. Tried:). Run: npm install pg@^8, or if it is installed already: npm rebuild pg",
    )
  })

  it('RateLimitedError: how long to wait, if the other side said so', () => {
    expect(new RateLimitedError('x', { retryAfterMs: 5 })).toMatchObject({ code: 'rate_limited', retryAfterMs: 5 })
    expect(new RateLimitedError('x').retryAfterMs).toBeUndefined()
    expect(new RateLimitedError('x', { code: 'quota' }).code).toBe('quota')
    expect(new RateLimitedError('x', { code: undefined }).code).toBe('rate_limited')
  })

  it('TimeoutError: how long it was given, and the code timeout unless its category has another', () => {
    expect(MADE.TimeoutError).toMatchObject({ code: 'timeout', timeoutMs: 5 })
    expect(new TimeoutError('x', { timeoutMs: 5, code: 'TIMEOUT_KV_GET' }).code).toBe('TIMEOUT_KV_GET')
  })
})
