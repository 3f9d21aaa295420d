import { gunzipSync, gzipSync } from 'node:zlib'
import { type Codec, CodecFailure, type EncodedContent } from './codec.js'

/** Shorter texts do not become shorter. */
const MIN_BYTES = 150

/** No text on record is longer. A few bytes can decode to gigabytes. */
const MAX_BYTES = 2 ** 22

/**
 * Compresses payloads, results and the other values of a kind of task with gzip. Those that would not become shorter stay as they
 * are.
 *
 * ```ts
 * const importFile = declareTask<{ rows: string[] }>('import-file', { codec: compressed() })
 * ```
 */
export function compressed(): Codec {
  return { name: 'gzip', isSecret: false, isRequired: false, encode, decode }
}

function encode(content: Buffer): EncodedContent | undefined {
  if (content.length < MIN_BYTES) return undefined
  const short = gzipSync(content)
  // As text it takes a third more, and so does an encrypted one, which is never plain.
  return short.length * 4 < content.length * 3 ? { content: short, detail: '' } : undefined
}

function decode(content: Buffer): Buffer {
  try {
    return gunzipSync(content, { maxOutputLength: MAX_BYTES })
  } catch {
    throw new CodecFailure('codec_tampered', 'it was changed or cut off after it was compressed')
  }
}
