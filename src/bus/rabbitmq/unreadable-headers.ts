import type { ChannelModel } from 'amqplib'
import type { UnreadableHeaders } from '../bus.js'
import { textOrBase64 } from '../message.js'

/** The parts of the driver's connection that read frames. The driver does not declare them. */
interface FrameReader {
  /** The bytes that have been received and not been read. */
  rest: Buffer
  /** Takes the next frame out of `rest`, and decodes it. False if there is none yet. */
  recvFrame(): { readonly fields?: object } | false
}

const UNREADABLE = Symbol('unreadable headers')

/**
 * Lets a connection survive a message whose headers the driver cannot decode: tables that are nested thousands deep, for
 * example, overflow its stack. It would end the connection, and the message would end the next one too. Such a message
 * is delivered without its headers, and `unreadableIn` has them.
 */
export function surviveHeaders({ connection }: ChannelModel): void {
  const reader: unknown = connection
  if (!isFrameReader(reader)) return
  const recvFrame = reader.recvFrame.bind(reader)
  reader.recvFrame = () => {
    const { rest } = reader
    try {
      return recvFrame()
    } catch (problem) {
      const cut = withoutHeaders(rest)
      if (cut === undefined) throw problem
      reader.rest = cut.rest
      const frame = recvFrame()
      const reason = problem instanceof Error ? problem.message : String(problem)
      if (frame && frame.fields !== undefined)
        Reflect.set(frame.fields, UNREADABLE, { reason, ...textOrBase64(cut.headers) })
      return frame
    }
  }
}

/** The headers of a message that the driver could not decode. */
export function unreadableIn(properties: object): UnreadableHeaders | undefined {
  return Reflect.get(properties, UNREADABLE)
}

function isFrameReader(value: unknown): value is FrameReader {
  return value instanceof Object && 'rest' in value && 'recvFrame' in value && typeof value.recvFrame === 'function'
}

/** The type of a frame that has a message's properties. */
const HEADER_FRAME = 2
/** A frame begins with its type, its channel and its length; and that of properties with a class, a weight and a size. */
const [LENGTH_AT, PAYLOAD_AT, FLAGS_AT] = [3, 7, 19]
/** The properties before the headers, each with its flag: the content's type and encoding. */
const BEFORE = [0x8000, 0x4000]
const HAS_HEADERS = 0x2000

/** Cuts the table of headers out of the first frame; `undefined` if that frame has none. */
function withoutHeaders(bytes: Buffer): { readonly rest: Buffer; readonly headers: Buffer } | undefined {
  if (bytes[0] !== HEADER_FRAME || bytes.length < FLAGS_AT + 2) return undefined
  const payload = bytes.readUInt32BE(LENGTH_AT)
  if (bytes.length < PAYLOAD_AT + payload) return undefined
  const flags = bytes.readUInt16BE(FLAGS_AT)
  if ((flags & HAS_HEADERS) === 0) return undefined
  let start = FLAGS_AT + 2
  for (const flag of BEFORE) if (flags & flag) start += 1 + bytes.readUInt8(start)
  const length = bytes.readUInt32BE(start)
  const end = start + 4 + length
  if (end > PAYLOAD_AT + payload) return undefined
  const rest = Buffer.concat([bytes.subarray(0, start), Buffer.alloc(4), bytes.subarray(end)])
  rest.writeUInt32BE(payload - length, LENGTH_AT)
  return { rest, headers: bytes.subarray(start + 4, end) }
}
