import { createCipheriv, createDecipheriv, createHmac, createSecretKey, type KeyObject, randomBytes } from 'node:crypto'
import { OptionError } from '../policy/index.js'
import { checkOptions, isObject, type KnownOptions, quoted, wrongOption } from '../policy/internal.js'
import { type Codec, CodecFailure, type EncodedContent } from './codec.js'

/** Options of `encrypted()`. @inline */
export interface EncryptionOptions {
  /**
   * The keys by their ids: 32 random bytes each, as bytes or as base64 or hexadecimal text. Every encrypted text names the id of
   * its key, so keep a key for as long as there may be texts that it has encrypted.
   */
  readonly keys: Readonly<Record<string, Uint8Array | string | undefined>>
  /** The id of the key that encrypts. All of them decrypt. */
  readonly current: string
  /**
   * Whether texts that are not encrypted are accepted, such as those of tasks that were enqueued before their kind was encrypted.
   * Default: false, and their tasks are dead letters.
   */
  readonly allowPlain?: boolean | undefined
}

const OPTIONS: KnownOptions<EncryptionOptions> = { keys: '', current: '', allowPlain: '' }

const CIPHER = 'aes-256-gcm'
const KEY_BYTES = 32
const IV_BYTES = 12
const TAG_BYTES = 16

interface Key {
  readonly secret: KeyObject
  /** Tells a wrong key from a damaged text. It reveals nothing of a random key. */
  readonly check: string
}

/**
 * Encrypts payloads, results, errors and all other values of a kind of task with AES-256-GCM, so that a store, its backups and
 * everybody who reads them see only ids, times, codes and the names of errors.
 *
 * ```ts
 * const charge = declareTask<{ card: string }>('charge', {
 *   codec: encrypted({ keys: { '2027': process.env.REDRIVE_KEY_2027 }, current: '2027' }),
 * })
 * ```
 *
 * To rotate keys, add one and make it `current`. A text belongs to its kind of task: one of another kind is refused.
 */
export function encrypted(options: EncryptionOptions): Codec {
  checkOptions('encrypted()', options, OPTIONS)
  const { keys, current, allowPlain = false } = options
  if (typeof allowPlain !== 'boolean') throw wrongOption('allowPlain', 'true or false', allowPlain)
  const known = keysOf(keys)
  const currentKey = known.get(current)
  if (currentKey === undefined)
    throw new OptionError(
      'current',
      `'current' must be the id of one of 'keys' (${idsOf(known)}), got ${quoted(current)}.`,
    )
  return {
    name: CIPHER,
    isSecret: true,
    isRequired: !allowPlain,
    encode: (content, about) => encrypt(content, current, currentKey, about),
    decode: (content, detail, about) => decrypt(content, detail, known, about),
  }
}

function encrypt(content: Buffer, id: string, { secret, check }: Key, about: string): EncodedContent {
  const iv = randomBytes(IV_BYTES)
  const cipher = createCipheriv(CIPHER, secret, iv).setAAD(Buffer.from(about))
  const hidden = Buffer.concat([cipher.update(content), cipher.final()])
  return { content: Buffer.concat([iv, cipher.getAuthTag(), hidden]), detail: `${id}:${check}` }
}

function decrypt(content: Buffer, detail: string, keys: ReadonlyMap<string, Key>, about: string): Buffer {
  const [id = '', check] = detail.split(':')
  const key = keys.get(id)
  if (key === undefined)
    throw new CodecFailure(
      'codec_key_missing',
      `it was encrypted with the key ${quoted(id)}, and there are only: ${idsOf(keys)}`,
    )
  if (check !== key.check)
    throw new CodecFailure('codec_key_wrong', `it was encrypted with another key that had the id ${quoted(id)}`)
  try {
    const [iv, tag] = [content.subarray(0, IV_BYTES), content.subarray(IV_BYTES, IV_BYTES + TAG_BYTES)]
    const decipher = createDecipheriv(CIPHER, key.secret, iv, { authTagLength: TAG_BYTES })
    decipher.setAAD(Buffer.from(about)).setAuthTag(tag)
    return Buffer.concat([decipher.update(content.subarray(IV_BYTES + TAG_BYTES)), decipher.final()])
  } catch {
    throw new CodecFailure(
      'codec_tampered',
      'it was changed or cut off after it was encrypted, or belongs to another task',
    )
  }
}

function keysOf(keys: EncryptionOptions['keys']): ReadonlyMap<string, Key> {
  if (!isObject(keys)) throw new OptionError('keys', "'keys' must be an object with the keys by their ids.")
  return new Map(Object.entries(keys).map(([id, key]) => [checkedId(id), keyOf(id, key)]))
}

function checkedId(id: string): string {
  if (/^[\w.-]{1,64}$/.test(id)) return id
  throw new OptionError('keys', `The id of a key has letters, digits and _.- (at most 64), got ${quoted(id)}.`)
}

/** Errors never repeat a key. */
function keyOf(id: string, key: Uint8Array | string | undefined): Key {
  if (key === undefined)
    throw new OptionError('keys', `The key ${quoted(id)} is undefined. Is the variable that it comes from not set?`)
  const bytes = typeof key === 'string' ? bytesOf(key) : key
  if (!(bytes instanceof Uint8Array) || bytes.length !== KEY_BYTES) {
    const advice = 'Make one with: openssl rand -base64 32'
    throw new OptionError(
      'keys',
      `The key ${quoted(id)} must be ${KEY_BYTES} bytes, as bytes or as base64 or hexadecimal text. ${advice}`,
    )
  }
  const check = createHmac('sha256', bytes).update('redrive key check').digest('hex').slice(0, 8)
  return { secret: createSecretKey(bytes), check }
}

function bytesOf(text: string): Buffer {
  if (/^[\da-f]{64}$/i.test(text)) return Buffer.from(text, 'hex')
  return /^[\w+/-]{43}=?$/.test(text) ? Buffer.from(text, 'base64') : Buffer.alloc(0)
}

function idsOf(keys: ReadonlyMap<string, Key>): string {
  return [...keys.keys()].map(id => quoted(id)).join(', ') || 'none'
}
