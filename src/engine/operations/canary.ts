import type { Lane, LedgerRow, PageRequest, TaskRecord } from '../../store/index.js'
import {
  cursorAt,
  type FixedRelease,
  hasFix,
  isOutside,
  type OperationMember,
  type OperationRecord,
  type StoreContract,
} from '../../store/internal.js'
import type { StepFacts } from './next-step.js'

/** How many members to look at for each that is chosen, so that lanes can differ. */
const CHOICE = 10

/**
 * Chooses members for a canary: evenly over the ages of the set, of different lanes where it can, and of an ordered lane the
 * first. `movable` picks those that may be moved.
 */
export async function chooseCanary(
  store: Pick<StoreContract, 'operations'>,
  { id, set }: OperationRecord,
  count: number,
  movable: (members: readonly OperationMember[]) => Promise<readonly OperationMember[]>,
): Promise<readonly string[]> {
  const read = (after: string | undefined) => firstOf(store, id, { limit: CHOICE, after })
  const [oldest] = await read(undefined)
  if (oldest === undefined || isOutside(set) || 'schedule' in set) return []
  const chosen = new Map<string, string>()
  for (let n = 0; n < count; n++) {
    const share = n / count
    const place =
      'ids' in set
        ? Math.floor(share * set.ids.length)
        : cursorAt({ changedAt: Math.floor(oldest.changedAt + share * (set.until - oldest.changedAt)) - 1, id: '' })
    const found = await movable(await read(n === 0 ? undefined : String(place)))
    await choose(store, id, found, chosen)
  }
  // Where many died at once, evenly spaced times find the same members: take the oldest of the rest.
  for (let after: string | undefined, isMore = true; isMore && chosen.size < count; ) {
    const page = await store.operations.members(id, { limit: 100, after })
    for (const member of await movable(page.items))
      if (chosen.size < count && !member.isOrdered) chosen.set(member.id, laneOf(member))
    after = page.next
    isMore = page.next !== undefined
  }
  return [...chosen.keys()]
}

/** The first page with members. One that looks into payloads may be empty, and not the last. */
async function firstOf(
  store: Pick<StoreContract, 'operations'>,
  id: string,
  page: PageRequest & { readonly lane?: Lane },
): Promise<readonly OperationMember[]> {
  const { items, next } = await store.operations.members(id, page)
  return items.length > 0 || next === undefined ? items : firstOf(store, id, { ...page, after: next })
}

/** Chooses one of these members: of a lane that has none yet, if there is one. */
async function choose(
  store: Pick<StoreContract, 'operations'>,
  id: string,
  found: readonly OperationMember[],
  chosen: Map<string, string>,
): Promise<void> {
  const lanes = new Set(chosen.values())
  const fresh = found.filter(member => !chosen.has(member.id))
  const member = fresh.find(each => !lanes.has(laneOf(each))) ?? fresh.find(each => !each.isOrdered)
  if (member === undefined) return
  const { kind, category, key } = member
  const head = member.isOrdered ? (await firstOf(store, id, { limit: 1, lane: { kind, category, key } }))[0] : member
  if (head !== undefined) chosen.set(head.id, laneOf(member))
}

export function laneOf({ kind, category, key }: OperationMember): string {
  return JSON.stringify([kind, category, key])
}

/**
 * The answers of a canary's members: the first counted attempt of each after its move. If they wait for a fix, the first that
 * a worker with the fix made.
 */
export async function canaryAnswers(
  store: Pick<StoreContract, 'get' | 'ledgers'>,
  ids: readonly string[],
  fixedIn?: FixedRelease,
): Promise<StepFacts['canary']> {
  const known = (await store.ledgers(ids)).map(ledger => answerIn(ledger, fixedIn))
  const open = ids.filter((_, index) => known[index] === undefined)
  // Tasks first: an attempt that ends meanwhile is in the ledger then, and its member is not taken for one without an answer.
  const tasks = await Promise.all(open.map(id => store.get(id)))
  const ledgers = await store.ledgers(open)
  const answers = [...known, ...tasks.map((task, index) => answerOf(task, ledgers[index] ?? [], fixedIn))]
  const count = (answer: ReturnType<typeof answerOf>) => answers.filter(each => each === answer).length
  return { passed: count('passed'), failed: count('failed'), pending: count('pending') }
}

/**
 * A deferral or a loss is no answer: the member is replaced, and whatever follows does not count. So is one that is gone, or
 * that somebody cancelled or put back.
 */
export function answerOf(
  task: Pick<TaskRecord, 'status'> | undefined,
  ledger: readonly LedgerRow[],
  fixedIn?: FixedRelease,
): 'passed' | 'failed' | 'pending' | 'replaced' {
  const isOpen = task?.status === 'waiting' || task?.status === 'running'
  return answerIn(ledger, fixedIn) ?? (isOpen ? 'pending' : 'replaced')
}

/** Rows that say nothing about an attempt, and after which it may still be made. */
const NO_ANSWERS: ReadonlySet<LedgerRow['outcome']> = new Set([
  'edited',
  'promoted',
  'rescheduled',
  'prioritized',
  'cancel_requested',
  'later',
])

/** The answer that the ledger of a member has; `undefined` if it has none. */
function answerIn(
  ledger: readonly LedgerRow[],
  fixedIn: FixedRelease | undefined,
): 'passed' | 'failed' | 'replaced' | undefined {
  const moved = ledger.findLastIndex(({ outcome }) => outcome === 'redriven')
  const [first] = ledger.slice(moved + 1).filter(({ outcome, attempt, release }) => {
    const isOlder = fixedIn !== undefined && attempt > 0 && !hasFix(release, fixedIn)
    const isNoAnswer = NO_ANSWERS.has(outcome)
    return !isNoAnswer && !isOlder
  })
  switch (first?.outcome) {
    case 'succeeded':
    case 'skipped':
    case 'advanced':
      return 'passed'
    case 'retry':
    case 'dead':
      return 'failed'
    case undefined:
      return undefined
    case 'deferred':
    case 'later':
    case 'cancelled':
    case 'lost':
    case 'redriven':
    case 'discarded':
    case 'completed':
    case 'failed':
    case 'undone':
    case 'edited':
    case 'promoted':
    case 'rescheduled':
    case 'prioritized':
    case 'cancel_requested':
      return 'replaced'
  }
}
