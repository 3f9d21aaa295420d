import { describe, expect, it } from 'vitest'
import { hashJson } from './hash.js'
import { policy } from './parse.js'

describe('the hash of data', () => {
  it('is the SHA-256 of its canonical JSON, in 64 hex digits', () => {
    expect(hashJson({})).toBe('44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a')
    expect(hashJson({ b: 'ü', a: 1 })).toBe('1a59e522e02ce50ad2c27c11a6d30f8667489c199580627fe9e3e33e2b0e91d5')
  })

  it('is the same for equal data, whatever the order of its keys', () => {
    expect(hashJson({ a: 1, b: { c: 2, d: 3 } })).toBe(hashJson({ b: { d: 3, c: 2 }, a: 1 }))
    expect(hashJson({ a: 1 })).not.toBe(hashJson({ a: '1' }))
  })

  it('names a policy: the same for each way of writing it, also after a trip through JSON', () => {
    const written = policy({ backoff: { base: '1s', max: '30s' }, jitter: 'full', giveUpOn: [TypeError] })
    const otherwise = policy({ giveUpOn: ['TypeError'], attempts: 3, backoff: { max: 30_000, kind: 'exponential' } })
    expect(hashJson(written)).toBe(hashJson(otherwise))
    expect(hashJson(JSON.parse(JSON.stringify(written)))).toBe(hashJson(written))
    expect(hashJson(policy({ attempts: 4 }))).not.toBe(hashJson(policy()))
  })
})
