import { fixWait, hasUnended, outstanding } from '../engine/internal.js'
import { commandLine, exactValue, quoted } from '../policy/internal.js'
import type { Store } from '../store/index.js'

import {
  contractOf,
  type DeathsRow,
  type DocumentSet,
  isOutside,
  isWorker,
  type MessageSet,
  MOVED,
  type OperationAct,
  type OperationRecord,
  type OperationSettings,
  type OutsideSet,
  type SlotSet,
  type StoreContract,
  type WorkerRecord,
} from '../store/internal.js'
import { isoOrNull } from './task-view.js'

/** An operation as plain JSON. */
export interface OperationView {
  /** Its id. */
  readonly id: string
  /** The act that it carries out. */
  readonly act: OperationAct
  /** Where it is in its life. */
  readonly status: OperationRecord['status']
  /** Why it was stopped. */
  readonly reason: string | null
  /** Who stopped it; `null` if it stopped by itself. */
  readonly stoppedBy: string | null
  /** Who asked for it. */
  readonly who: string
  /** The reason given. */
  readonly why: string | null
  /** The filter and its time, the number of tasks that were named, the slots of a schedule, or members outside of the store. */
  readonly set:
    | { readonly named: number }
    | { readonly filter: object; readonly until: string }
    | (Omit<DocumentSet, 'until'> & { readonly until: string })
    | (Omit<SlotSet, 'from' | 'to'> & { readonly from: string; readonly to: string })
    | MessageSet
  /** How it goes about it. */
  readonly settings: Omit<OperationSettings, 'patch'> & { readonly patch?: unknown }
  /** How many members it has moved. */
  readonly moved: number
  /** Members that were left alone, by reason. */
  readonly refused: Readonly<Record<string, number>>
  /** Documents that were looked at and are not in the set: another error, or a later attempt. */
  readonly unmatched: number
  /** How many documents or messages it may still have to look at; `null` if its members are tasks. */
  readonly left: number | null
  /** How many of those that it moved were put back. */
  readonly undone: number
  /** Who put members back last, and why. */
  readonly undoneBy: { readonly who: string; readonly why: string | null } | null
  /** How many have not answered yet. */
  readonly outstanding: number
  /** The outcomes of the others. */
  readonly tally: OperationRecord['tally']
  /** Who advances it. */
  readonly driver: string | null
  /** When it was created, as ISO 8601 text in UTC. */
  readonly createdAt: string
  /** When it was done. */
  readonly endedAt: string | null
}

/** Converts an operation to plain JSON. */
export function operationView(operation: OperationRecord): OperationView {
  const { id, act, status, reason, stoppedBy, by, set, settings, moved, progress, undone, undoneBy, tally, driver } =
    operation
  // A driver notes that the last member has ended, when one looks.
  const isDone = status === 'settling' && !hasUnended(operation)
  return {
    id,
    act,
    status: isDone ? 'done' : status,
    reason: reason ?? null,
    stoppedBy: stoppedBy?.who ?? null,
    who: by.who,
    why: by.why ?? null,
    set: setView(set),
    settings: settingsView(settings),
    moved,
    refused: progress.refused,
    unmatched: progress.unmatched ?? 0,
    left: leftOf(operation),
    undone,
    undoneBy: undoneBy === undefined ? null : { who: undoneBy.who, why: undoneBy.why ?? null },
    outstanding: outstanding(operation),
    tally,
    driver: driver?.name ?? null,
    createdAt: new Date(operation.createdAt).toISOString(),
    endedAt: isoOrNull(operation.endedAt),
  }
}

/** The patch of a record is JSON text. */
function settingsView({ patch, ...others }: OperationSettings): OperationView['settings'] {
  return patch === undefined ? others : { ...others, patch: exactValue(String(patch)) }
}

function setView(set: OperationRecord['set']): OperationView['set'] {
  if ('ids' in set) return { named: set.ids.length }
  if ('schedule' in set) return { ...set, from: new Date(set.from).toISOString(), to: new Date(set.to).toISOString() }
  return 'queue' in set ? set : { ...set, until: new Date(set.until).toISOString() }
}

/** How many members outside of the store it may still have to look at, by the count when it was created. */
function leftOf({ set, status, moved, progress, settings }: OperationRecord): number | null {
  if (!isOutside(set)) return null
  if (status === 'done') return 0
  const looked = Object.values(progress.refused).reduce((sum, count) => sum + count, moved + (progress.unmatched ?? 0))
  return Math.max(0, Math.min(set.count - looked, (settings.limit ?? Infinity) - moved))
}

/**
 * The outcome of an operation, in a sentence: `3214 moved: 3190 succeeded, 24 dead again, all in one group.` Members
 * that have not ended are counted as under way.
 */
export async function operationOutcome(store: Store, operation: OperationRecord): Promise<string> {
  const { operations } = contractOf(store)
  const { id, act, moved, undone, tally } = operation
  const left = leftOf(operation)
  const done = MOVED[act]
  const putBack = undone === 0 ? [] : [`${undone} ${act === 'backfill' ? 'cancelled' : 'put back'}`]
  if (left !== null) return `${moved} ${done}${left > 0 ? `, up to ${left} left` : ''}.`
  if (act !== 'redrive') return `${[`${moved} ${done}`, ...putBack].join(', ')}.`
  const ended = tally.succeeded + tally.skipped + tally.dead + tally.cancelled
  const parts = [
    [tally.succeeded, 'succeeded'],
    [tally.skipped, 'skipped'],
    [tally.cancelled, 'cancelled'],
    [moved - undone - ended, 'under way'],
  ] as const
  const counts = parts.flatMap(([count, name]) => (count > 0 ? `${count} ${name}` : []))
  if (tally.dead > 0) {
    const deaths = await operations.deaths(id)
    const isAll = deaths.reduce((sum, { count }) => sum + count, 0) === tally.dead
    counts.push(`${tally.dead} dead again${isAll ? sharedBy(deaths) : ''}`)
  }
  const all = [...putBack, ...counts]
  return all.length === 0 ? `${moved} ${done}.` : `${moved} ${done}: ${all.join(', ')}.`
}

/** The number of members of an operation: those that it has moved, and those that it may still move. */
export async function operationTotal(
  store: Pick<StoreContract, 'operations'>,
  { act, set, moved, status, settings }: OperationRecord,
): Promise<number> {
  if (status === 'settling' || status === 'done') return moved
  if ('ids' in set) return Math.min(set.ids.length, settings.limit ?? Infinity)
  if (isOutside(set) || 'schedule' in set) return Math.min(set.count, settings.limit ?? Infinity)
  const left = await store.operations.survey(act, set)
  const all = left.reduce((sum, { count }) => sum + count, moved)
  return Math.min(all, Math.max(moved, settings.limit ?? Infinity))
}

/** The failure groups of members that failed again, most first: those of the canary, and those that are dead. */
export async function failedGroups(
  store: Pick<StoreContract, 'operations' | 'get'>,
  { id, act, progress }: OperationRecord,
): Promise<{ readonly group: string; readonly count: number }[]> {
  if (act !== 'redrive') return []
  const counts = new Map<string, number>()
  const add = (group: string | undefined, count: number) => {
    if (group !== undefined) counts.set(group, (counts.get(group) ?? 0) + count)
  }
  for (const row of await store.operations.deaths(id)) add(row.group, row.count)
  for (const member of await Promise.all(progress.canary.map(member => store.get(member)))) {
    // Dead ones are counted already, and one that has not failed since its move has no error.
    if (member?.status !== 'dead' && member?.errorCode !== undefined) add(member.group, 1)
  }
  return [...counts].map(([group, count]) => ({ group, count })).sort((a, b) => b.count - a.count)
}

/** The facts that members that are dead again have in common, if there are several of them. */
function sharedBy(deaths: readonly DeathsRow[]): string {
  const [first] = deaths
  if (first === undefined || (deaths.length === 1 && first.count < 2)) return ''
  if (first.group !== undefined && deaths.every(({ group }) => group === first.group)) return ', all in one group'
  const isOneCode = first.errorCode !== undefined && deaths.every(({ errorCode }) => errorCode === first.errorCode)
  return isOneCode ? `, all of them ${first.errorCode}` : ''
}

/**
 * The reason why an operation does not go on, as a sentence; `null` if it does. `workers` are those that are alive, and
 * `now` is the store's clock.
 */
export function operationNote(
  operation: OperationRecord,
  workers: readonly WorkerRecord[],
  now: number,
): string | null {
  const { id, set, status, driver } = operation
  const isDriven = driver !== undefined && driver.until > now
  switch (status) {
    case 'planned':
      return waitText(operation, workers)
    case 'canary':
    case 'running':
      if (isOutside(set)) return isDriven ? null : unattendedText(id, set)
      if (workers.some(isWorker) || isDriven) return null
      return `Nobody carries it out: no worker is running. Start one, or run: ${commandLine('ops continue', {}, id)}`
    case 'settling':
      return workers.some(isWorker) || outstanding(operation) === 0 ? null : 'Its members wait: no worker is running.'
    case 'stopped':
    case 'done':
      return null
  }
}

function unattendedText(id: string, set: OutsideSet): string {
  const [flag, address] = 'queue' in set ? (['--bus', set.bus] as const) : (['--source', set.source] as const)
  return `Nobody carries it out now: its driver must reach ${address}. Run: ${commandLine('ops continue', { [flag]: 'URL' }, id)}`
}

/** How many workers are named. */
const MAX_NAMED = 3

function waitText(operation: OperationRecord, workers: readonly WorkerRecord[]): string {
  const wait = fixWait(operation, workers)
  if (wait === undefined) return 'It starts within seconds: all live workers have the fix.'
  const { kind, release, older } = wait
  const goal = `It waits until all live workers of ${quoted(kind)} run ${release} or later`
  if (older.length === 0) return `${goal}. None is running now.`
  const named = older.slice(0, MAX_NAMED).map(({ name, release }) => {
    return `${name} ${release === undefined ? 'reports no release' : `runs ${release}`}`
  })
  const others = older.length - named.length
  return `${goal}. ${[...named, ...(others > 0 ? [`${others} more do not`] : [])].join(', ')}.`
}
