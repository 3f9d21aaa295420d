import { quoted } from '../policy/internal.js'
import type { AttemptNotes, LogLine } from '../store/internal.js'
import { failureText, redact } from '../telemetry/index.js'

/** Earlier lines are forgotten. */
const MAX_LINES = 100

/** About the most that the notes of an attempt take up, in bytes of JSON. */
const MAX_BYTES = 2 ** 14

/** About what the JSON of a line, or of a progress, takes up beside its text. */
const OTHER_BYTES = 40

/** A longer text is cut when it comes, and not when it is read. */
const LONG = 4000

/** The kinds of tasks whose progress was no number. A warning for each task would say the same. */
const warned = new Set<string>()

/** A text as it came, or one that is bounded and redacted already. */
interface Told {
  readonly text: string
  readonly isSafe: boolean
}

/** Takes what a handler tells of its attempt: how far it has come, and its last lines. It writes nothing anywhere. */
export class Notebook {
  readonly #kind: string
  readonly #encode: (text: string) => string
  #fraction: number | undefined
  #about: Told | undefined
  #lines: (Told & { readonly at: number })[] = []

  /** `encode` is applied to each text that is read. */
  constructor(kind: string, encode: (text: string) => string) {
    this.#kind = kind
    this.#encode = encode
  }

  /** Notes how far the attempt has come. Work does not fail because of its progress: what is no number from 0 to 1 is left out. */
  progress(fraction: number, text?: string): void {
    const nearest = Math.min(1, Math.max(0, Number(fraction)))
    // A sum of shares may miss 1 by a rounding error.
    if (typeof fraction !== 'number' || !(Math.abs(fraction - nearest) < 1e-6)) return warn(this.#kind, fraction)
    this.#fraction = nearest
    this.#about = text === undefined ? undefined : told(text)
  }

  /** Notes a line. */
  log(text: string, at: number): void {
    this.#lines.push({ at, ...told(text) })
    // Not for every line, since moving the others costs more than adding it.
    if (this.#lines.length >= 2 * MAX_LINES) this.#lines = this.#lines.slice(-MAX_LINES)
  }

  /**
   * The notes that fit into about so many bytes, later lines before earlier ones. Secrets are removed only here: most lines are
   * never read.
   */
  notes(maxBytes = MAX_BYTES): AttemptNotes {
    let left = Math.min(maxBytes, MAX_BYTES)
    const fits = (text: string) => {
      left -= OTHER_BYTES + Buffer.byteLength(text)
      return left >= 0
    }
    const about = this.#about && this.#encode(safe(this.#about))
    const fraction = this.#fraction
    const progress = fraction !== undefined && {
      progress: { fraction, ...(about !== undefined && fits(about) && { text: about }) },
    }
    const log: LogLine[] = []
    for (const line of this.#lines.slice(-MAX_LINES).reverse()) {
      const text = this.#encode(safe(line))
      if (!fits(text)) break
      log.push({ at: line.at, text })
    }
    return { ...progress, ...(log.length > 0 && { log: log.reverse() }) }
  }
}

function told(text: unknown): Told {
  // Code without types may pass anything.
  if (typeof text !== 'string') return { text: failureText(text), isSafe: true }
  if (text.length <= LONG) return { text, isSafe: false }
  // A copy: a part of a text keeps all of it in memory.
  return { text: Buffer.from(redact(text)).toString(), isSafe: true }
}

function safe({ text, isSafe }: Told): string {
  return isSafe ? text : redact(text)
}

function warn(kind: string, got: unknown): void {
  if (warned.has(kind)) return
  warned.add(kind)
  const problem = `The progress of a task is a number from 0 to 1, and '${kind}' gave ${quoted(got)}.`
  const text = `${problem} It is left out, here and from now on.`
  process.emitWarning(text, { type: 'RedriveWarning', code: 'progress_invalid' })
}
