import { describe, expect, it } from 'vitest'
import { type CollectionOptions, collectionOf } from './collection.js'
import { judgeDocument } from './judge-document.js'
import type { DocumentRecord } from './source.js'

const event = { type: 'chunks.prepared', data: () => ({}) }
const chunks: CollectionOptions = { name: 'chunks', event, policy: { attempts: 6 } }
const NOW = Date.UTC(2026, 0, 1)

function documentWith(fields: Partial<DocumentRecord>): DocumentRecord {
  return {
    id: 'c1',
    status: 'pending',
    attemptCount: 0,
    lastAttemptAt: undefined,
    createdAt: undefined,
    generation: 0,
    retryAt: undefined,
    dispatches: 0,
    lastError: undefined,
    data: {},
    problem: undefined,
    asRead: undefined,
    ...fields,
  }
}

describe('the judgement on a stuck document', () => {
  const judge = (fields: Partial<DocumentRecord>, options: Partial<CollectionOptions> = {}) =>
    judgeDocument(collectionOf({ ...chunks, ...options }), documentWith(fields), NOW)

  it('is to dispatch what was never attempted', () => {
    expect(judge({})).toEqual({ action: 'dispatch' })
  })

  it.each([
    [1, 300],
    [2, 600],
    [3, 1200],
    [4, 2400],
    [5, 3600],
  ])('follows the formula: after attempt %d it waits %d s', (attemptCount, seconds) => {
    const lastAttemptAt = NOW - seconds * 1000
    expect(judge({ attemptCount, lastAttemptAt })).toEqual({ action: 'dispatch' })
    expect(judge({ attemptCount, lastAttemptAt: lastAttemptAt + 1 })).toEqual({ action: 'wait', until: NOW + 1 })
  })

  it('is to give up what has used up its attempts, however many more are on record', () => {
    const exhausted = { action: 'give_up', reason: 'attempts_exhausted' }
    expect(judge({ attemptCount: 6, lastAttemptAt: NOW })).toEqual(exhausted)
    expect(judge({ attemptCount: 60 })).toEqual(exhausted)
    expect(judge({ attemptCount: 5, lastAttemptAt: 0 })).toEqual({ action: 'dispatch' })
  })

  it('is to give up what is older than its time to live, where the creation time is known', () => {
    const fields = { createdAt: 'created_at' }
    const options = { fields, policy: { attempts: 9, ttl: '7d' } } as const
    const old = { attemptCount: 1, lastAttemptAt: NOW - 86_400_000, createdAt: NOW - 8 * 86_400_000 }
    expect(judge(old, options)).toEqual({ action: 'give_up', reason: 'ttl_expired' })
  })

  it('takes a time that was set for the next attempt as the end of its backoff', () => {
    const fields = { generation: 'generation', retryAt: 'retry_at' }
    expect(judge({ attemptCount: 1, lastAttemptAt: NOW, retryAt: NOW }, { fields })).toEqual({ action: 'dispatch' })
  })
})

describe('a collection', () => {
  it.each([
    ['fields', { fields: { generation: 'generation' } }, /both 'generation' and 'retryAt'/],
    ['fields', { fields: { dispatches: 'dispatches' } }, /needs 'generation'/],
    ['name', { name: `x" or 1=1` }, /cannot be used/],
    ['time', { time: 'epoch' }, /'date', 'iso', 'ms' or 's'/],
    ['stuckAfter', { stuckAfter: 'soon' }, /a duration/],
    ['priority', { priority: 'recent' }, /needs the field 'createdAt'/],
    ['policy', { policy: { ttl: '1d' } }, /needs the field 'createdAt'/],
  ])('with a wrong %s is refused', (option, wrong, message) => {
    const options = { ...chunks, ...wrong } as CollectionOptions
    expect(() => collectionOf(options)).toThrow(
      expect.objectContaining({ option, message: expect.stringMatching(message) }),
    )
  })

  it('takes a threshold of 0 and of half an hour as they are', () => {
    expect(collectionOf({ ...chunks, stuckAfter: 0 }, { stuckAfter: '1h' }).stuckAfterMs).toBe(0)
    expect(collectionOf(chunks, { stuckAfter: '0.5h' }).stuckAfterMs).toBe(1_800_000)
  })
})
