import { OptionError } from '../policy/index.js'
import { type Codec, CodecFailure } from './codec.js'
import { type Envelope, envelopeOf, envelopeText, isEncoded, shownText, textWith } from './envelope.js'
import { CodecError } from './errors.js'

/** What a text on record is. A text of one use is refused as one of another. */
export type TextUse = 'payload' | 'value' | 'result' | 'step result' | 'error'

/**
 * The codecs of a kind of task: the one place that encodes and decodes its texts. A text belongs to its kind and its use. All but
 * payloads belong to their task too; those are encoded before the store gives the task its id.
 */
export class KindCodec {
  /** Whether it hides what it encodes. */
  readonly isSecret: boolean
  /** Whether it refuses payloads that it has not encoded. */
  readonly isRequired: boolean
  readonly #kind: string
  readonly #codecs: readonly Codec[]

  constructor(kind: string, codec: Codec | readonly Codec[]) {
    const codecs = [codec].flat()
    checkCodecs(kind, codecs)
    this.#kind = kind
    this.#codecs = codecs
    this.isSecret = codecs.some(({ isSecret }) => isSecret)
    this.isRequired = codecs.some(({ isRequired }) => isRequired)
  }

  /** Encodes a text of a task. A text that no codec changes stays plain. */
  encode(text: string, use: TextUse, id: string): string {
    let content: Buffer = Buffer.from(text)
    const layers: string[] = []
    for (const codec of this.#codecs) {
      const encoded = codec.encode(content, this.#about(use, id, layers))
      if (encoded === undefined) continue
      content = encoded.content
      layers.push([codec.name, encoded.detail].filter(Boolean).join(':'))
    }
    return layers.length === 0 ? text : envelopeText({ layers, content })
  }

  /** Decodes a text of a task. Throws a `CodecError` if that is impossible. */
  decode(text: string, use: TextUse, id: string): string {
    try {
      if (isEncoded(text)) return this.#decoded(envelopeOf(text), use, id)
      if (!this.isRequired) return text
      throw new CodecFailure('codec_not_encoded', `it is not encrypted. ${ADVICE[use === 'payload' ? use : 'other']}`)
    } catch (failure) {
      if (!(failure instanceof CodecFailure)) throw failure
      throw new CodecError(
        failure.code,
        `The ${use} of a task of the kind '${this.#kind}' cannot be decoded: ${failure.message}.`,
      )
    }
  }

  /** Decodes the text of a failure, whose name is never encoded. */
  decodeError(text: string, id: string): string {
    return textWith(text, encoded => this.decode(encoded, 'error', id))
  }

  /** Decodes the text of a failure, or says that it is encoded. For texts on which nothing depends. */
  readableError(text: string, id: string): string {
    try {
      return this.decodeError(text, id)
    } catch {
      return shownText(text)
    }
  }

  #decoded(envelope: Envelope | undefined, use: TextUse, id: string): string {
    if (envelope === undefined)
      throw new CodecFailure('codec_tampered', 'it was changed or cut off after it was encoded')
    const { layers } = envelope
    const names = layers.map(layer => nameOf(layer))
    const skipped = this.#codecs.find(({ name, isRequired }) => isRequired && !names.includes(name))
    if (skipped !== undefined) throw new CodecFailure('codec_not_encoded', 'it is not encrypted')
    let { content } = envelope
    for (const [index, layer] of [...layers.entries()].reverse()) {
      const name = nameOf(layer)
      const codec = this.#codecs.find(one => one.name === name)
      if (codec === undefined)
        throw new CodecFailure('codec_missing', `it needs the codec '${name}', which the task does not have`)
      content = codec.decode(content, layer.slice(name.length + 1), this.#about(use, id, layers.slice(0, index)))
    }
    return content.toString()
  }

  /** What a text belongs to, and the layers within. Encryption authenticates it. */
  #about(use: TextUse, id: string, layers: readonly string[]): string {
    return JSON.stringify([this.#kind, use, use === 'payload' ? '' : id, ...layers])
  }
}

/** How a text that is not encrypted is accepted after all. */
const ADVICE = {
  payload: "Enqueue it with its task, edit its payload, or set 'allowPlain' of encrypted()",
  other: "To accept it, set 'allowPlain' of encrypted()",
}

function nameOf(layer: string): string {
  return layer.split(':', 1)[0] ?? ''
}

function checkCodecs(kind: string, codecs: readonly Codec[]): void {
  const isCodec = (codec: Codec) => typeof codec?.name === 'string' && typeof codec.encode === 'function'
  if (codecs.length === 0 || !codecs.every(isCodec))
    throw new OptionError(
      'codec',
      `'codec' of the task '${kind}' must be encrypted(), compressed(), or a list of both.`,
    )
  if (new Set(codecs.map(({ name }) => name)).size < codecs.length)
    throw new OptionError('codec', `The task '${kind}' has the same codec twice.`)
  if (codecs.slice(0, -1).some(({ isSecret }) => isSecret))
    throw new OptionError(
      'codec',
      `In the codecs of the task '${kind}', encrypted() must be the last: nothing encrypted can be compressed.`,
    )
}
