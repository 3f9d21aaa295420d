import type { GroupLife, GroupMark, GroupRecord, LifeMark } from '../../contract/group-store.js'
import type { By } from '../../contract/ledger.js'
import type { FixedRelease } from '../../contract/operation-store.js'
import type { LedgerChange } from '../ledger-change.js'
import { isAtOrAfter } from './release-order.js'
import { trendHours } from './trend.js'

/** The life of a group that nobody has marked. */
export const NEW: GroupLife = { state: 'new' }

/** Facts at the time of a mark. */
export interface AtMark {
  readonly now: number
  /** The group's failed attempts. */
  readonly seen: number
  /** The releases that live workers report. */
  readonly releases: readonly string[]
}

/** The life of a group after an operator has marked it. */
export function lifeAfterMark(mark: GroupMark, { who, why }: By, { now, seen, releases }: AtMark): GroupLife {
  const by: LifeMark = { at: now, who, ...(why !== undefined && { why }) }
  switch (mark.state) {
    case 'new':
      return NEW
    case 'acknowledged':
      return { state: 'acknowledged', ...by }
    case 'fixed': {
      const { release } = mark
      const before = [...new Set(releases)].filter(other => other !== release).sort()
      return { state: 'fixed', ...by, ...(release !== undefined && { release }), before }
    }
    case 'ignored': {
      const { at, count, perHour } = mark.until ?? {}
      const until = {
        ...(at !== undefined && { at }),
        ...(count !== undefined && { count }),
        ...(perHour !== undefined && { perHour }),
      }
      return { state: 'ignored', ...by, until, seen }
    }
  }
}

/** The life of a group after a failed attempt, given by its change of the ledger: another one if a fix has not held. */
export function lifeAfterFailure(life: GroupLife, ledger: LedgerChange, now: number): GroupLife {
  if (life.state !== 'fixed' || ledger.type !== 'append') return life
  const { release, startedAt } = ledger.row
  if (startedAt <= life.at || !hasFix(release, life)) return life
  const { who, why, release: fixedIn } = life
  return {
    state: 'regressed',
    at: now,
    who,
    ...(why !== undefined && { why }),
    ...(release !== undefined && { release }),
    ...(fixedIn !== undefined && { fixedIn }),
  }
}

/** Whether a release has a fix in it. Releases without an order have it if nobody ran them at the time of the mark. */
export function hasFix(
  release: string | undefined,
  { release: fixedIn, before }: Partial<FixedRelease> & Pick<FixedRelease, 'before'>,
): boolean {
  if (fixedIn === undefined) return true
  if (release === undefined) return false
  return isAtOrAfter(release, fixedIn) ?? !before.includes(release)
}

/** The life of a group that gets the failures of another one, with its own figures before that: its own, if it has one. */
export function inheritedLife(
  left: GroupLife,
  { life, seen }: { readonly life: GroupLife; readonly seen: number },
): GroupLife {
  if (life.state !== 'new' || left.state !== 'ignored') return life.state === 'new' ? left : life
  // Further failures are counted from the mark on.
  return { ...left, seen: left.seen + seen }
}

/** The life of a group now: it is new again once it is ignored no longer. */
export function lifeNow(life: GroupLife, { seen, trend }: Pick<GroupRecord, 'seen' | 'trend'>, now: number): GroupLife {
  if (life.state !== 'ignored') return life
  const { at, count, perHour } = life.until
  if (at !== undefined && now >= at) return NEW
  if (count !== undefined && seen - life.seen >= count) return NEW
  if (perHour === undefined) return life
  // Part of the hour of the mark was before it.
  const isPassed = trendHours(now).some((hour, index) => hour > life.at && (trend[index] ?? 0) > perHour)
  return isPassed ? NEW : life
}
