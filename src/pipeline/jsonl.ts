import { createHash } from 'node:crypto'
import { open } from 'node:fs/promises'
import { OptionError } from '../policy/index.js'
import { checkOptions, isObject, type KnownOptions } from '../policy/internal.js'
import { SourceChangedError } from './errors.js'
import { type Line, linesOf, NEWLINE, parsedLine } from './lines.js'
import type { ResumableSource, SourceItem } from './source.js'

/** Options of `jsonl()`. @inline */
export interface JsonlOptions {
  /** How to treat a line that is not JSON. Default: the source stops there, with an error that names file and line. */
  readonly onBadLine?: 'stop' | 'skip'
}

const JSONL_OPTIONS: KnownOptions<JsonlOptions> = { onBadLine: '' }

/** The last line that was taken, as a run remembers it. */
interface Mark {
  readonly line: number
  readonly start: number
  readonly end: number
  readonly hash: string
}

/**
 * The lines of a file, each a JSON value; blank lines are skipped. A resumed run continues at the byte after the last line
 * that it took, after checking that this line is still the same.
 */
export function jsonl<T = unknown>(path: string, options: JsonlOptions = {}): ResumableSource<T> {
  checkOptions('jsonl()', options, JSONL_OPTIONS)
  const { onBadLine = 'stop' } = options
  if (onBadLine !== 'stop' && onBadLine !== 'skip')
    throw new OptionError('onBadLine', `'onBadLine' must be 'stop' or 'skip', got '${String(onBadLine)}'.`)
  return {
    async *readFrom(cursor) {
      const mark = cursor === undefined ? undefined : await foundMark(path, cursor)
      for await (const line of linesOf(path, mark)) {
        const item = parsedLine(path, line, onBadLine)
        if (item !== undefined) yield new JsonlItem(item.value as T, line)
      }
    },
  }
}

/** Its cursor is made only for the last line of a chunk. */
class JsonlItem<T> implements SourceItem<T> {
  readonly item: T
  readonly #line: Line

  constructor(item: T, line: Line) {
    this.item = item
    this.#line = line
  }

  get cursor(): string {
    const { number, start, end, bytes } = this.#line
    return JSON.stringify({ line: number, start, end, hash: hashOf(bytes) } satisfies Mark)
  }
}

/** The place after the last line that a run took, if that line is still there. */
async function foundMark(path: string, cursor: string): Promise<Mark> {
  const mark: unknown = JSON.parse(cursor)
  if (!isMark(mark)) throw new SourceChangedError(`'${path}'`, 'the run was reading another kind of source')
  const file = await open(path)
  try {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(mark.end - mark.start), 0, null, mark.start)
    const bytes = buffer.subarray(0, bytesRead)
    const line = bytes.at(-1) === NEWLINE ? bytes.subarray(0, -1) : bytes
    if (bytesRead < mark.end - mark.start || hashOf(line) !== mark.hash)
      throw new SourceChangedError(`'${path}'`, `line ${mark.line}, the last that it took, has changed`)
    return mark
  } finally {
    await file.close()
  }
}

function isMark(value: unknown): value is Mark {
  if (!isObject(value)) return false
  const { line, start, end, hash } = value
  return [line, start, end].every(Number.isSafeInteger) && typeof hash === 'string'
}

function hashOf(bytes: Buffer): string {
  return createHash('sha256').update(bytes).digest('base64url').slice(0, 22)
}
