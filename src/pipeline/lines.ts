import { createReadStream } from 'node:fs'
import { SourceItemError } from './errors.js'

/** A line of a file, and where it is. The bytes are those of the line, without its end. */
export interface Line {
  readonly bytes: Buffer
  /** Its number, from 1. */
  readonly number: number
  readonly start: number
  /** The offset of the next line. */
  readonly end: number
}

export const NEWLINE = 0x0a

/** The lines of a file, from the start or after a line that is known. */
export async function* linesOf(
  path: string,
  { line = 0, end = 0 }: { readonly line?: number; readonly end?: number } = {},
): AsyncGenerator<Line> {
  let [number, start] = [line, end]
  let rest: Buffer[] = []
  // Without a start it also reads what cannot be sought, such as a pipe.
  for await (const chunk of createReadStream(path, end > 0 ? { start: end } : {})) {
    let from = 0
    for (let at = chunk.indexOf(NEWLINE); at >= 0; at = chunk.indexOf(NEWLINE, from)) {
      const bytes = rest.length === 0 ? chunk.subarray(from, at) : Buffer.concat([...rest, chunk.subarray(from, at)])
      rest = []
      from = at + 1
      const next = start + bytes.length + 1
      yield { bytes, number: ++number, start, end: next }
      start = next
    }
    if (from < chunk.length) rest.push(chunk.subarray(from))
  }
  const bytes = Buffer.concat(rest)
  if (bytes.length > 0) yield { bytes, number: number + 1, start, end: start + bytes.length }
}

/** The value of a line; `undefined` for a blank one, and for one that is not JSON and may be skipped. */
export function parsedLine(
  path: string,
  { bytes, number }: Pick<Line, 'bytes' | 'number'>,
  onBadLine: 'stop' | 'skip',
): { readonly value: unknown } | undefined {
  const text = bytes.toString('utf8')
  if (isBlank(text)) return undefined
  try {
    return { value: JSON.parse(text) }
  } catch (cause) {
    if (onBadLine === 'skip') return undefined
    const problem = cause instanceof Error ? cause.message : String(cause)
    throw new SourceItemError(`${path}:${number}`, `the line is not JSON (${problem})`, { cause })
  }
}

/** Whether a line has no item. */
export function isBlank(text: string): boolean {
  return text.trim() === ''
}
