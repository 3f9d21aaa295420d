import type { AttemptNotes, LiveNotes } from '../contract/attempt-notes.js'

/** The notes of the attempt at a task that began at a time, among those that its worker has reported. */
export function notesOf(
  notes: Readonly<Record<string, LiveNotes>>,
  id: string,
  began: number,
): AttemptNotes | undefined {
  const live = Object.hasOwn(notes, id) ? notes[id] : undefined
  return live?.since === began ? live.notes : undefined
}
