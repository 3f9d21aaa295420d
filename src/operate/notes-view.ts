import { type KindCodec, shownText } from '../codec/internal.js'
import { decodedNotes } from '../engine/internal.js'
import type { LedgerRow, TaskRecord } from '../store/index.js'
import { type AttemptNotes, notesOf, type Progress, type StoreContract } from '../store/internal.js'

/** The notes of an attempt, as plain JSON. */
export interface NotesView {
  /** How far it had come; `null` if it did not say. */
  readonly progress: ProgressView | null
  /** Its last lines, oldest first. */
  readonly log: readonly LogLineView[]
}

/** How far an attempt has come. */
export interface ProgressView {
  /** From 0 to 1. */
  readonly fraction: number
  /** In the handler's words. */
  readonly text: string | null
}

/** A line that a handler has logged. */
export interface LogLineView {
  /** When, as ISO 8601 text in UTC. */
  readonly at: string
  /** The line, bounded and redacted. */
  readonly text: string
}

/** The notes of one attempt at a task. */
export interface AttemptNotesView extends NotesView {
  /** Its number. */
  readonly attempt: number
  /** Whether it is under way. */
  readonly isRunning: boolean
  /** When it ended, or when its worker last reported. */
  readonly at: string
}

/** The view of notes. */
export function notesView({ progress, log = [] }: AttemptNotes = {}): NotesView {
  return {
    progress: progress === undefined ? null : progressView(progress),
    log: log.map(({ at, text }) => ({ at: new Date(at).toISOString(), text: shownText(text) })),
  }
}

function progressView({ fraction, text }: Progress): ProgressView {
  return { fraction, text: text === undefined ? null : shownText(text) }
}

/**
 * The notes of the attempt under way, as its worker last reported them; otherwise of the last one that has left any. Rows of the
 * history are decoded already.
 */
export async function lastNotes(
  store: Pick<StoreContract, 'workers'>,
  task: TaskRecord,
  history: readonly LedgerRow[],
  codec: KindCodec | undefined,
): Promise<AttemptNotesView | undefined> {
  if (task.status === 'running') return liveNotes(store, task, codec)
  const row = history.findLast(({ notes }) => notes?.progress !== undefined || notes?.log !== undefined)
  if (row === undefined) return undefined
  const { attempt, endedAt, notes } = row
  return { attempt, isRunning: false, at: new Date(endedAt).toISOString(), ...notesView(notes) }
}

async function liveNotes(
  store: Pick<StoreContract, 'workers'>,
  { id, attempts, changedAt }: TaskRecord,
  codec: KindCodec | undefined,
): Promise<AttemptNotesView | undefined> {
  for (const { notes = {}, beatAt } of await store.workers()) {
    const live = notesOf(notes, id, changedAt)
    if (live === undefined) continue
    return {
      attempt: attempts + 1,
      isRunning: true,
      at: new Date(beatAt ?? changedAt).toISOString(),
      ...notesView(codec === undefined ? live : decodedNotes(live, id, codec)),
    }
  }
  return undefined
}
