import type { GroupLife } from '../../contract/group-store.js'
import { NEW } from './life.js'

/** The life of a group as columns of the table `failure_group`. All are NULL while nobody has marked it. */
export interface LifeRow {
  /** The state. */
  readonly life: string | null
  readonly marked_at: number | null
  readonly who: string | null
  readonly why: string | null
  /** The other facts, as a JSON object. */
  readonly details: string | null
}

/** Converts columns to a life. */
export function lifeOf({ life, marked_at, who, why, details }: LifeRow): GroupLife {
  if (life === null) return NEW
  return {
    state: life,
    at: marked_at,
    who,
    ...(why !== null && { why }),
    ...(JSON.parse(details ?? '{}') as object),
  } as GroupLife
}

/** Converts a life to columns. */
export function lifeRow(life: GroupLife): LifeRow {
  if (life.state === 'new') return { life: null, marked_at: null, who: null, why: null, details: null }
  const { state, at, who, why, ...details } = life
  return { life: state, marked_at: at, who, why: why ?? null, details: JSON.stringify(details) }
}
