import type { Sample, SampledLine } from '../../../pipeline/internal.js'
import type { RunRecord } from '../../../store/internal.js'

/** The command's own notes on a run, from which it can be resumed. */
export interface RunNotes {
  /** The file that it reads, as an absolute path. */
  readonly input?: string | undefined
  /** The file for its results. */
  readonly output?: string | undefined
  /** Results are written as they come, not in the order of the source. */
  readonly isUnordered?: boolean | undefined
  /** The sample that it began with. */
  readonly trial?: Sample | undefined
}

/** The notes on a run. Empty if it was started by a program. */
export function runNotes({ about }: Pick<RunRecord, 'about'>): RunNotes {
  if (about === undefined) return {}
  try {
    const notes: unknown = JSON.parse(about)
    return isNotes(notes) ? notes : {}
  } catch {
    return {}
  }
}

/** The places in the source of the items that were taken first. */
export function sampledPlaces({ trial }: RunNotes): readonly number[] {
  return trial?.lines.map(({ place }) => place) ?? []
}

function isNotes(value: unknown): value is RunNotes {
  if (typeof value !== 'object' || value === null) return false
  const { input, output, isUnordered, trial } = value as Partial<Record<keyof RunNotes, unknown>>
  const isText = (text: unknown) => text === undefined || typeof text === 'string'
  return isText(input) && isText(output) && [undefined, true, false].includes(isUnordered as boolean) && isSample(trial)
}

function isSample(value: unknown): value is Sample | undefined {
  if (value === undefined) return true
  if (typeof value !== 'object' || value === null) return false
  const { lines, total } = value as Partial<Record<keyof Sample, unknown>>
  return Number.isSafeInteger(total) && Array.isArray(lines) && lines.every(isSampledLine)
}

function isSampledLine(value: unknown): value is SampledLine {
  if (typeof value !== 'object' || value === null) return false
  const { place, line, offset } = value as Partial<Record<keyof SampledLine, unknown>>
  return [place, line, offset].every(Number.isSafeInteger)
}
