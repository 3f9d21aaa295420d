/**
 * Begins every encoded text. No JSON text begins with it, so a payload that a user has written is never mistaken for one. The
 * number is the version of the format: `~redrive1 gzip+aes-256-gcm:2027:5f0c1a9e <base64>`.
 */
const MARK = '~redrive1 '

const ENVELOPE = /^~redrive1 ([\w.:+-]{1,500}) ([A-Za-z0-9+/]+={0,2})$/

/** An encoded text, taken apart. */
export interface Envelope {
  /** The codecs that made it, in their order, each with what it needs to decode it: `aes-256-gcm:2027:5f0c1a9e`. */
  readonly layers: readonly string[]
  readonly content: Buffer
}

/** Whether a codec has encoded a text. */
export function isEncoded(text: string): boolean {
  return text.startsWith(MARK)
}

export function envelopeText({ layers, content }: Envelope): string {
  return `${MARK}${layers.join('+')} ${content.toString('base64')}`
}

/** The parts of an encoded text; `undefined` if it is damaged. */
export function envelopeOf(text: string): Envelope | undefined {
  const [, layers, content] = ENVELOPE.exec(text) ?? []
  if (layers === undefined || content === undefined) return undefined
  return { layers: layers.split('+'), content: Buffer.from(content, 'base64') }
}

/** The text of a failure as anybody may see it: an encoded part, which stands at its end, is left out. */
export function shownText(text: string): string {
  const start = text.indexOf(MARK)
  return start === -1 ? text : `${text.slice(0, start)}(encoded)`
}

/** The text of a failure with its encoded part decoded. */
export function textWith(text: string, decode: (encoded: string) => string): string {
  const start = text.indexOf(MARK)
  return start === -1 ? text : text.slice(0, start) + decode(text.slice(start))
}
