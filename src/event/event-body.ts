import { textOf } from '../bus/index.js'
import { textOrBase64 } from '../bus/internal.js'

/**
 * The body of an event as JSON can hold it: its own JSON, as it came and not as it would be written again; if it is not
 * JSON, its text; and if it is not UTF-8 either, base64.
 */
export type EncodedBody = { readonly json: string } | { readonly raw: string; readonly encoding?: 'base64' | undefined }

export function encodeBody(body: Uint8Array): EncodedBody {
  try {
    const json = textOf({ body })
    JSON.parse(json)
    return { json }
  } catch {
    return textOrBase64(body)
  }
}

/** The body as it was published: the same text, or the same bytes. */
export function decodeBody(encoded: EncodedBody): string | Uint8Array {
  if ('json' in encoded) return encoded.json
  return encoded.encoding === undefined ? encoded.raw : Buffer.from(encoded.raw, encoded.encoding)
}
