import {
  isOnLiving,
  isOutside,
  isWorker,
  type OperationMember,
  type OperationProgress,
  type OperationRecord,
  type OperationStep,
  type StoreContract,
  type TakenOperation,
  type WorkerRecord,
} from '../../store/internal.js'
import { type Clock, sleep } from '../../time/index.js'
import { backfillStep, unendedRuns } from './backfill-step.js'
import { canaryAnswers, chooseCanary, laneOf } from './canary.js'
import { fixWait } from './fix-wait.js'
import { encodedEdits, invalidMembers, PAYLOAD_INVALID, type PayloadChecks } from './next-payload.js'
import { leftOf, type NextStep, nextStep, type StepFacts } from './next-step.js'
import type { OutsideTarget, OutsideWork } from './outside-work.js'
import { refusalOf } from './refuse-member.js'

/** Who drives an operation, and for how long. */
export interface DriveOptions {
  /** The name of the driver on record. */
  readonly driver: string
  /** Gives the operation back when it aborts, after the current step. */
  readonly signal: AbortSignal
  /** The source of time between steps. */
  readonly clock: Clock
  /** How long the operation is this driver's own after a step. Another one takes it over then. Default 10 s. */
  readonly leaseMs?: number
  /** Checks of payloads, by kind. A redrive leaves members alone that would be dead again at once. Default: none. */
  readonly checks?: PayloadChecks | undefined
  /** Acts on members outside of the store. Operations on other ones are left to whoever can reach them. Default: none. */
  readonly outside?: OutsideTarget | undefined
  /** Asked while there is nothing to do: whether to give the operation back, since another one waits. Default: never. */
  readonly giveWay?: (() => boolean) | undefined
  /** Called after each step. */
  readonly onStep?: (operation: OperationRecord) => void
}

type DriveStore = Pick<StoreContract, 'operations' | 'workers' | 'now' | 'get' | 'ledgers' | 'payloads' | 'schedules'>

const LEASE_MS = 10_000
/** The lease is renewed when a third of it is over, though there is nothing to do. */
const RENEWALS = 3

const NO_ANSWERS = { passed: 0, failed: 0, pending: 0 }

/**
 * Advances an operation, one step at a time, until all its members were moved, it is stopped, another driver has it, the
 * signal aborts, or it has to wait while another operation waits for this driver. Nobody waits for the last members to end:
 * the next driver looks again. Each step is one transaction, and moves only what is still in the set: a driver that dies at
 * any point leaves an operation that another one can continue. Members outside of the store are moved before the step,
 * which notes them. Returns whether it had the lease.
 */
export async function driveOperation(store: DriveStore, id: string, options: DriveOptions): Promise<boolean> {
  const { driver, leaseMs = LEASE_MS, outside } = options
  const found = await store.operations.get(id)
  // It may wait for weeks: nobody takes its lease until then.
  if (found?.status === 'planned' && fixWait(found, await store.workers()) !== undefined) return false
  const isOnTasks = found === undefined || !isOutside(found.set)
  const work = isOnTasks ? undefined : outside?.(found)
  if (!isOnTasks && work === undefined) return false
  const taken = await store.operations.take(id, driver, leaseMs)
  if (taken === undefined) return false
  try {
    await advance(store, taken, work, options)
  } finally {
    // A failure to close must not hide the one that ended the work, nor keep the lease.
    await work?.close().catch(() => {})
    // Whoever comes next need not wait until the lease has run out. A lease that was lost is another's.
    await store.operations.release(id, taken.token).catch(() => {})
  }
  return true
}

/** Makes steps as long as there are any, and the lease is this driver's own. */
async function advance(
  store: DriveStore,
  taken: TakenOperation,
  work: OutsideWork | undefined,
  { signal, clock, leaseMs = LEASE_MS, checks = new Map(), giveWay = () => false, onStep }: DriveOptions,
): Promise<void> {
  const { token } = taken
  const { id } = taken.operation
  let operation = taken.operation
  let steppedAt = clock.monotonic()
  while (!signal.aborted && isOpen(operation)) {
    const facts = await factsOf(store, operation)
    const next = nextStep(operation, facts)
    const isLeaseFresh = clock.monotonic() - steppedAt < leaseMs / RENEWALS
    // To take a lease and release it costs two commits, so an operation that waits gives way only instead of a renewal.
    if (next.type === 'wait' && (waitsLong(operation) || (!isLeaseFresh && giveWay()))) return
    if (next.type === 'wait' && isLeaseFresh) {
      await sleep(next.ms, clock, signal).catch(() => {})
      operation = (await store.operations.get(id)) ?? operation
      continue
    }
    const { status, progress } = operation
    const renew = () => store.operations.step(id, token, { leaseMs, status, progress })
    const { failure, ...step } = await whileRenewing(renew, leaseMs / RENEWALS, clock, async () => {
      const planned = await stepOf(store, operation, next, { ...facts, checks, work, signal })
      const { move } = planned
      return move === undefined ? planned : { ...planned, edits: await encodedEdits(store, operation, move, checks) }
    })
    const stepped = await store.operations.step(id, token, { leaseMs, ...step })
    if (failure !== undefined) throw failure
    if (stepped === undefined) return
    operation = stepped.operation
    steppedAt = clock.monotonic()
    onStep?.(operation)
  }
}

/** Renews the lease while a step is prepared: reading a large set may take longer than the lease, and others would take over. */
async function whileRenewing<T>(
  renew: () => Promise<unknown>,
  everyMs: number,
  clock: Clock,
  work: () => Promise<T>,
): Promise<T> {
  const end = new AbortController()
  const renewing = async () => {
    while (!end.signal.aborted) {
      await sleep(everyMs, clock, end.signal)
      // The step itself reports whether the lease still holds.
      await renew().catch(() => {})
    }
  }
  const renewed = renewing().catch(() => {})
  try {
    return await work()
  } finally {
    end.abort()
    await renewed
  }
}

/** Whether there is nothing to do for so long that the next driver looks again. */
function waitsLong({ status }: OperationRecord): boolean {
  return status === 'settling' || status === 'planned'
}

function isOpen({ status }: OperationRecord): boolean {
  return status !== 'stopped' && status !== 'done'
}

interface DriverFacts extends StepFacts {
  readonly workers: readonly WorkerRecord[]
  /** The runs of a bounded backfill that have not ended. */
  readonly runs: readonly string[]
}

/** The facts of a driver, what it knows of payloads, and how it reaches members outside of the store. */
interface Facts extends DriverFacts {
  readonly checks: PayloadChecks
  readonly work: OutsideWork | undefined
  readonly signal: AbortSignal
}

/** A step to make, and the failure to report after it. */
export type PlannedStep = Omit<OperationStep, 'leaseMs'> & { readonly failure?: unknown }

async function factsOf(store: DriveStore, operation: OperationRecord): Promise<DriverFacts> {
  const { status, progress, settings } = operation
  const [workers, now, runs, canary] = await Promise.all([
    store.workers(),
    store.now(),
    unendedRuns(store, progress.runs),
    status === 'canary' ? canaryAnswers(store, progress.canary, settings.fixedIn) : NO_ANSWERS,
  ])
  const isWaiting = fixWait(operation, workers) !== undefined
  const room = settings.atOnce === undefined ? undefined : settings.atOnce - runs.length
  return { workers, now, hasWorkers: workers.some(isWorker), isWaiting, room, runs, canary }
}

/** The step that carries a decision out. */
async function stepOf(
  store: DriveStore,
  operation: OperationRecord,
  next: NextStep,
  facts: Facts,
): Promise<PlannedStep> {
  const { status, progress, tally } = operation
  switch (next.type) {
    case 'wait':
      return { status, progress }
    case 'stop':
      return { status: 'stopped', reason: next.reason, progress }
    case 'enter': {
      const judged = { passed: tally.passed, failed: tally.failed }
      const entered = { ...progress, window: next.window ?? progress.window, judged }
      // Whether the set had enough members for a canary says nothing about the rest.
      const isRead = status === 'canary' ? false : progress.isRead
      if (next.status !== 'planned') return { status: next.status, progress: { ...entered, isRead } }
      const { canarySince, ...anew } = entered
      return { status: 'planned', progress: { ...anew, isRead, canary: [] } }
    }
    case 'move':
      if (facts.work !== undefined) return outsideStep(operation, facts.work, next.limit, facts.signal)
      if ('schedule' in operation.set)
        return backfillStep(store, operation, operation.set, { limit: next.limit, runs: facts.runs })
      return next.isCanary
        ? canaryStep(store, operation, next.limit, facts)
        : moveStep(store, operation, next.limit, facts)
  }
}

async function canaryStep(store: DriveStore, operation: OperationRecord, limit: number, facts: Facts) {
  const { status, progress } = operation
  const { now } = facts
  const movable = async (members: readonly OperationMember[]) => (await split(store, operation, members, facts)).movable
  const move = await chooseCanary(store, operation, limit, movable)
  const canary = [...progress.canary, ...move]
  const canarySince = progress.canarySince ?? now
  // Fewer than asked for: the set has no more. The members are looked at again when the rest is moved.
  const isRead = move.length < limit
  return { status, move, progress: { ...progress, canary, canarySince, isRead } }
}

/** Acts on members outside of the store, and notes what came of it. */
async function outsideStep(
  operation: OperationRecord,
  work: OutsideWork,
  limit: number,
  signal: AbortSignal,
): Promise<PlannedStep> {
  const { status, progress } = operation
  const { moved, refused, unmatched, isRead, failure } = await work.act(operation, limit, signal)
  const next = { ...progress, refused, ...(unmatched !== undefined && { unmatched }), isRead }
  return { status, movedOutside: moved, progress: next, failure }
}

/** Moves the oldest members. Those of an ordered lane move together, so that they run in their order. */
async function moveStep(store: DriveStore, operation: OperationRecord, limit: number, facts: Facts) {
  const { id, status, progress } = operation
  const page = await store.operations.members(id, { limit, after: progress.after })
  const { movable: members, refused } = await split(store, operation, page.items, facts)
  const move = new Set(members.map(member => member.id))
  // Only dead letters make a queue again: tasks that have not ended keep their places.
  const queued = isOnLiving(operation.act) ? [] : members.filter(({ isOrdered }) => isOrdered)
  const ordered = new Map(queued.map(member => [laneOf(member), member]))
  for (const lane of ordered.values()) {
    // Those that are left alone are counted with their own page.
    const { movable } = await split(store, operation, await laneMembers(store, id, lane), facts)
    for (const member of movable) move.add(member.id)
  }
  const next: OperationProgress = { ...progress, refused, isRead: page.next === undefined, after: page.next }
  return { status, move: [...move].slice(0, leftOf(operation)), progress: next }
}

/** The members that may be moved, and the number of all that were left alone so far, by reason. */
async function split(
  store: DriveStore,
  operation: OperationRecord,
  members: readonly OperationMember[],
  { workers, checks }: Facts,
): Promise<{ readonly movable: OperationMember[]; readonly refused: Readonly<Record<string, number>> }> {
  const refused: Record<string, number> = { ...operation.progress.refused }
  const isMeant = (reason: string | undefined) => {
    if (reason !== undefined) refused[reason] = (refused[reason] ?? 0) + 1
    return reason === undefined
  }
  const open = members.filter(member =>
    isMeant(refusalOf(operation, { ...member, hasTwin: member.twin !== undefined }, workers)),
  )
  const invalid = await invalidMembers(store, operation, open, checks)
  return { movable: open.filter(({ id }) => isMeant(invalid.has(id) ? PAYLOAD_INVALID : undefined)), refused }
}

async function laneMembers(
  store: DriveStore,
  id: string,
  { kind, category, key }: OperationMember,
): Promise<OperationMember[]> {
  const members: OperationMember[] = []
  let after: string | undefined
  do {
    const page = await store.operations.members(id, { limit: 1000, after, lane: { kind, category, key } })
    members.push(...page.items)
    after = page.next
  } while (after !== undefined)
  return members
}
