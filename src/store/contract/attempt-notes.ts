import type { Cost } from './task.js'

/** The notes of an attempt in the ledger, beside its outcome. Texts are bounded and redacted. */
export interface AttemptNotes {
  /** The step that ended the attempt: it failed, or it waits for its next attempt. */
  readonly step?: string | undefined
  /** Steps on record that the handler did not ask for: it has left them out, or renamed them. */
  readonly unusedSteps?: readonly string[] | undefined
  /** The delay until the next attempt that the code of its kind asked for, in place of the backoff. */
  readonly askedMs?: number | undefined
  /** How much it took from each bucket, as its handler reported. */
  readonly used?: Cost | undefined
  /** How far it had come. */
  readonly progress?: Progress | undefined
  /** The last lines that it logged, oldest first. */
  readonly log?: readonly LogLine[] | undefined
}

/** How far an attempt has come. */
export interface Progress {
  /** From 0 to 1. */
  readonly fraction: number
  readonly text?: string | undefined
}

/** A line that a handler has logged. */
export interface LogLine {
  /** When, on the store's clock. */
  readonly at: number
  readonly text: string
}

/** The notes of an attempt under way, as a heartbeat brings them. */
export interface LiveNotes {
  /** When the attempt began, on the store's clock. */
  readonly since: number
  readonly notes: AttemptNotes
}
