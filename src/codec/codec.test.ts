import { randomBytes } from 'node:crypto'
import { gzipSync } from 'node:zlib'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { OptionError } from '../policy/index.js'
import { envelopeOf, envelopeText, isEncoded, shownText } from './envelope.js'
import { type Codec, CodecError, compressed, encrypted } from './index.js'
import { KindCodec } from './internal.js'
import type { TextUse } from './kind-codec.js'

const OLD = randomBytes(32)
const NEW = randomBytes(32)
const USES: readonly TextUse[] = ['payload', 'value', 'result', 'step result', 'error']

const secret = (options: Partial<Parameters<typeof encrypted>[0]> = {}) =>
  encrypted({ keys: { old: OLD }, current: 'old', ...options })
const kind = (codec: Codec | readonly Codec[] = secret(), name = 'charge') => new KindCodec(name, codec)

/** The code of the error with which a text is refused. */
function refusal(codec: KindCodec, text: string, use: TextUse = 'payload', id = 't'): string | undefined {
  try {
    codec.decode(text, use, id)
    return undefined
  } catch (failure) {
    expect(failure).toBeInstanceOf(CodecError)
    return (failure as CodecError).code
  }
}

describe('a codec', () => {
  const codecs: [string, readonly Codec[]][] = [
    ['encrypted', [secret()]],
    ['compressed', [compressed()]],
    ['both', [compressed(), secret()]],
  ]

  it.each(codecs)('%s gives back every text as it was', (_, layers) => {
    const codec = kind(layers)
    const texts = fc.oneof(fc.json(), fc.string({ unit: 'grapheme', maxLength: 500 }), fc.string({ maxLength: 2000 }))
    fc.assert(
      fc.property(texts, fc.constantFrom(...USES), fc.string(), (text, use, id) => {
        fc.pre(!/\p{Cs}/u.test(text) && !isEncoded(text))
        return codec.decode(codec.encode(text, use, id), use, id) === text
      }),
    )
  })

  it('gives back a text of 100 KB, of a megabyte, and of no characters', () => {
    for (const layers of [[secret()], [compressed(), secret()]]) {
      for (const length of [0, 100_000, 2 ** 20]) {
        const text = JSON.stringify(randomBytes(length / 2).toString('hex'))
        expect(kind(layers).decode(kind(layers).encode(text, 'payload', ''), 'payload', '')).toBe(text)
      }
    }
  })

  it('never takes a payload of a user for an encoded text', () => {
    const mine = JSON.stringify('~redrive1 gzip AAAA')
    expect(isEncoded(mine)).toBe(false)
    fc.assert(fc.property(fc.json(), json => !isEncoded(json)))
  })

  it('makes another text each time, and none of them shows what is in it', () => {
    const texts = Array.from({ length: 20 }, () => kind().encode('{"card":"4242"}', 'payload', ''))
    expect(new Set(texts).size).toBe(20)
    for (const text of texts) expect(Buffer.from(text.split(' ')[2] ?? '', 'base64').toString()).not.toContain('4242')
  })

  it('leaves a text plain that compression would not make shorter', () => {
    const short = '{"to":"ada"}'
    const random = JSON.stringify(randomBytes(400).toString('base64'))
    for (const text of [short, random]) expect(kind([compressed()]).encode(text, 'payload', '')).toBe(text)
    const long = JSON.stringify(Array.from({ length: 200 }, () => 'the same'))
    expect(kind([compressed()]).encode(long, 'payload', '').length).toBeLessThan(long.length / 5)
    expect(kind([compressed(), secret()]).encode(long, 'payload', '').length).toBeLessThan(long.length / 5)
  })
})

describe('a key', () => {
  const text = kind().encode('{"card":"4242"}', 'payload', '')

  it('decrypts after another one has become the current one, and the new one encrypts', () => {
    const rotated = kind(secret({ keys: { old: OLD, new: NEW }, current: 'new' }))
    expect(rotated.decode(text, 'payload', '')).toBe('{"card":"4242"}')
    const renewed = rotated.encode('1', 'payload', '')
    expect(renewed).toContain('aes-256-gcm:new:')
    expect(refusal(kind(), renewed)).toBe('codec_key_missing')
  })

  it('that is gone, and another one under its id, are told apart', () => {
    expect(refusal(kind(secret({ keys: { new: NEW }, current: 'new' })), text)).toBe('codec_key_missing')
    expect(refusal(kind(secret({ keys: { old: NEW } })), text)).toBe('codec_key_wrong')
  })

  it('is taken as bytes, as base64, as base64url and as hexadecimal text', () => {
    for (const key of [new Uint8Array(OLD), OLD.toString('base64'), OLD.toString('base64url'), OLD.toString('hex')])
      expect(kind(secret({ keys: { old: key } })).decode(text, 'payload', '')).toBe('{"card":"4242"}')
  })

  it('is refused if it is too short, no key, or not there, and never repeated', () => {
    const short = randomBytes(16).toString('hex')
    for (const key of [short, 'password', randomBytes(31), undefined]) {
      const make = () => secret({ keys: { old: key } })
      expect(make).toThrow(OptionError)
      expect(make).not.toThrow(short)
    }
    expect(() => secret({ keys: { old: undefined } })).toThrow("The key 'old' is undefined. Is the variable")
    expect(() => secret({ current: 'new' })).toThrow("must be the id of one of 'keys' ('old'), got 'new'")
    expect(() => secret({ keys: { 'a:b': OLD }, current: 'a:b' })).toThrow('The id of a key has letters')
  })
})

describe('an encrypted text', () => {
  const codec = kind()
  const text = codec.encode('{"card":"4242"}', 'result', 't')

  it('is refused if any of its characters was changed', () => {
    for (let at = 0; at < text.length; at++) {
      const other = text[at] === 'A' ? 'B' : 'A'
      const changed = text.slice(0, at) + other + text.slice(at + 1)
      const code = refusal(codec, changed, 'result', 't')
      // The last characters of base64 may hold bits that stand for nothing.
      if (code === undefined) expect(codec.decode(changed, 'result', 't')).toBe('{"card":"4242"}')
      else expect(['codec_tampered', 'codec_key_missing', 'codec_key_wrong', 'codec_not_encoded']).toContain(code)
    }
  })

  it('is refused if it was cut off anywhere', () => {
    for (let length = '~redrive1 '.length; length < text.length - 2; length++)
      expect(refusal(codec, text.slice(0, length), 'result', 't')).toMatch(/^codec_(tampered|key_wrong|key_missing)$/)
  })

  it('belongs to its kind, its use and its task; a payload to its kind alone', () => {
    expect(refusal(kind(secret(), 'refund'), text, 'result', 't')).toBe('codec_tampered')
    expect(refusal(codec, text, 'error', 't')).toBe('codec_tampered')
    expect(refusal(codec, text, 'result', 'u')).toBe('codec_tampered')
    const payload = codec.encode('1', 'payload', 't')
    expect(codec.decode(payload, 'payload', 'u')).toBe('1')
    expect(refusal(kind(secret(), 'refund'), payload)).toBe('codec_tampered')
  })

  it('is refused if a layer was taken from its name', () => {
    const both = kind([compressed(), secret()])
    const long = JSON.stringify('x'.repeat(1000))
    const { layers, content } = envelopeOf(both.encode(long, 'payload', '')) ?? { layers: [], content: Buffer.alloc(0) }
    expect(layers).toHaveLength(2)
    expect(refusal(both, envelopeText({ layers: layers.slice(1), content }))).toBe('codec_tampered')
    expect(refusal(both, envelopeText({ layers: layers.slice(0, 1), content }))).toBe('codec_not_encoded')
  })

  it('is required, unless plain texts are allowed', () => {
    expect(refusal(codec, '{"card":1}')).toBe('codec_not_encoded')
    expect(refusal(kind([compressed(), secret()]), '{"card":1}')).toBe('codec_not_encoded')
    expect(refusal(kind([compressed()]), '{"card":1}')).toBeUndefined()
    expect(kind(secret({ allowPlain: true })).decode('{"card":1}', 'payload', '')).toBe('{"card":1}')
  })
})

describe('a compressed text', () => {
  const codec = kind([compressed()])

  it('is refused if it is damaged, or would be longer than any text on record', () => {
    const text = codec.encode(JSON.stringify('x'.repeat(1000)), 'payload', '')
    expect(refusal(codec, text.slice(0, -8))).toBe('codec_tampered')
    const bomb = envelopeText({ layers: ['gzip'], content: gzipSync(Buffer.alloc(2 ** 24)) })
    expect(refusal(codec, bomb)).toBe('codec_tampered')
  })

  it('is refused by a kind that does not compress', () => {
    const text = kind([compressed(), secret()]).encode(JSON.stringify('x'.repeat(1000)), 'payload', '')
    expect(refusal(kind(), text)).toBe('codec_missing')
  })
})

describe('the codecs of a kind', () => {
  it('are refused if they are none, twice the same, or compress what is encrypted', () => {
    expect(() => kind([])).toThrow("'codec' of the task 'charge' must be encrypted(), compressed(), or a list of both.")
    expect(() => kind([secret(), secret()])).toThrow('the same codec twice')
    expect(() => kind([secret(), compressed()])).toThrow('encrypted() must be the last')
    expect(() => new KindCodec('charge', {} as Codec)).toThrow(OptionError)
  })
})

describe('the text of a failure', () => {
  it('shows its name and its step, and the rest only to the codec', () => {
    const codec = kind()
    const text = `HttpError: step 'charge': ${codec.encode('card 4242 refused', 'error', 't')}`
    expect(shownText(text)).toBe("HttpError: step 'charge': (encoded)")
    expect(codec.decodeError(text, 't')).toBe("HttpError: step 'charge': card 4242 refused")
    expect(codec.readableError(text, 'u')).toBe("HttpError: step 'charge': (encoded)")
    expect(codec.readableError('HttpError: 4242', 't')).toBe('HttpError: 4242')
  })
})
