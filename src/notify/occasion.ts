import type { StoreContract } from '../store/internal.js'
import type { Notice } from './notice.js'

/** One look at a store. */
export interface Look {
  readonly store: StoreContract
  /** The store's clock. */
  readonly now: number
  /** The time of the look before, or an hour ago: what happened earlier was told, or is no news. */
  readonly since: number
  /** Whether this process has not looked before. */
  readonly isFirst: boolean
}

/** Finds what there is to tell. It may find the same thing again: a message is sent once for each subject. */
export type Occasion = (look: Look) => Promise<readonly Notice[]>

/** Messages about messages would never end. */
export function isOwnKind(kind: string): boolean {
  return kind.startsWith('notify:')
}
