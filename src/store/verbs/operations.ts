import type { Lane } from '../contract/lane.js'
import type { By } from '../contract/ledger.js'
import type { Page, PageRequest } from '../contract/list.js'
import {
  type DeathsRow,
  MOVED,
  type NewOperation,
  type OperationAct,
  type OperationMember,
  type OperationRecord,
  type OperationSettings,
  type OperationStep,
  type OperationStore,
  type OperationTally,
  type PayloadEdit,
  type PayloadPatch,
  type SurveyRow,
  type TakenOperation,
  type TaskSet,
} from '../contract/operation-store.js'
import type { ForgottenSteps } from '../contract/step.js'
import type { RecordPlace, StoredRecord } from '../port/record-port.js'
import type { Steps, Transactions, Tx } from '../port/steps.js'
import { arrangementOf } from '../rules/arrange.js'
import { checkBeat, checkName, checkPage, checkPerson } from '../rules/check.js'
import { NEWEST, OLDEST, pageByTime, taskPlace } from '../rules/cursor.js'
import { checkNewOperation, checkSet } from '../rules/operations/check-operation.js'
import { OperationNotFoundError } from '../rules/operations/errors.js'
import {
  isDrivenBy,
  isOpen,
  isOutside,
  NO_TALLY,
  type OperationState,
  operationRecord,
  operationState,
  type PartOfOperation,
  partOf,
  refuseUndo,
  released,
} from '../rules/operations/operation-rules.js'
import { patchedPayload } from '../rules/operations/patch-payload.js'
import { memberPage, namedPage, surveyed } from '../rules/operations/set.js'
import { changing, creation, leasing, stepping, type Transition, undoing } from '../rules/operations/transitions.js'
import { isArranging } from '../rules/operator-acts.js'
import { restoreArranged } from './arrange.js'
import { backfillSlots, cancelBackfilled } from './backfill.js'
import { discardTasks } from './batches.js'
import { cancelTasks, redriveTasks } from './runs.js'
import { livingMembers, membersContaining, partsOf, surveyContaining, surveyNamed } from './search.js'
import { withTwins } from './unique.js'

/** The type of their records. */
const OPERATION = 'operation'

/** Operations that are read at once to count them. */
const PAGE = 500

/** An operation under its lock, and the time. */
interface LockedOperation {
  readonly state: OperationState
  readonly tally: OperationTally
  readonly now: number
}

/** The operations of every store. A verb that changes one locks it first, applies a rule, and saves the result. */
export class Operations implements OperationStore {
  readonly #store: Transactions
  readonly #onMoved: (ids: readonly string[]) => void

  constructor(store: Transactions, onMoved: (ids: readonly string[]) => void) {
    this.#store = store
    this.#onMoved = onMoved
  }

  async create(operation: NewOperation): Promise<OperationRecord> {
    checkNewOperation(operation)
    return this.#store.write(function* (tx) {
      const now = yield* tx.clock.now()
      return yield* save(tx, creation(operation, now), NO_TALLY, now)
    })
  }

  async get(id: string): Promise<OperationRecord | undefined> {
    checkName('id', id)
    return this.#store.read(function* (tx) {
      // The tally first: no more members are counted than the record says were moved.
      const tallies = yield* tx.operations.tallies([id])
      const found = yield* tx.records.get(OPERATION, id)
      return found && operationRecord(operationState(found.state), tallies.get(id) ?? NO_TALLY)
    })
  }

  async list(filter: { readonly isOpen?: boolean }, { limit, after }: PageRequest): Promise<Page<OperationRecord>> {
    checkPage({ limit })
    const { changedAt: place, id } = after === undefined ? NEWEST : taskPlace(after)
    return this.#store.read(function* (tx) {
      const found = yield* tx.records.newest(OPERATION, filter.isOpen === true, { place, id }, limit + 1)
      const tallies = yield* tx.operations.tallies(found.map(record => record.id))
      const records = found.map(({ id, state }) => operationRecord(operationState(state), tallies.get(id) ?? NO_TALLY))
      return pageByTime(records, limit, ({ createdAt }) => createdAt)
    })
  }

  async take(id: string, driver: string, leaseMs: number): Promise<TakenOperation | undefined> {
    checkBeat({ worker: driver, leaseMs })
    return this.#change(id, function* (tx, { state, tally, now }) {
      const lease = leasing(state, driver, leaseMs, now)
      return lease && { operation: yield* save(tx, lease, tally, now), token: lease.token }
    })
  }

  async step(
    id: string,
    token: string,
    step: OperationStep,
  ): Promise<{ readonly operation: OperationRecord; readonly moved: readonly string[] } | undefined> {
    const result = await this.#change(id, function* (tx, { state, tally, now }) {
      if (!isDrivenBy(state, token)) return undefined
      const moved = yield* act(tx, state, step, now)
      return { operation: yield* save(tx, stepping(state, step, moved.length, tally, now), tally, now), moved }
    })
    if (result !== undefined && result.moved.length > 0) this.#onMoved(result.moved)
    return result
  }

  async release(id: string, token: string): Promise<void> {
    await this.#change(id, (tx, { state, tally, now }) => save(tx, { state: released(state, token) }, tally, now))
  }

  async change(id: string, change: 'stop' | 'continue', by: By): Promise<OperationRecord> {
    checkPerson(by)
    return this.#change(id, (tx, { state, tally, now }) =>
      save(tx, changing(state, change, tally, by, now), tally, now),
    )
  }

  async members(
    id: string,
    { limit, after, lane }: PageRequest & { readonly lane?: Lane },
  ): Promise<Page<OperationMember>> {
    checkName('id', id)
    checkPage({ limit })
    return this.#store.read(function* (tx) {
      const state = stateOf(id, yield* tx.records.get(OPERATION, id))
      const page = yield* membersOf(tx, state, { limit, after, lane })
      return state.act === 'redrive' ? yield* withTwins(tx, page) : page
    })
  }

  async survey(act: OperationAct, set: TaskSet): Promise<readonly SurveyRow[]> {
    checkSet(act, set)
    if ('ids' in set) return this.#store.read(tx => surveyNamed(tx, act, set.ids))
    const { columns, part } = partsOf(set.filter)
    const scope = { filter: columns, until: set.until }
    if (part !== undefined) return surveyed(await surveyContaining(this.#store, act, scope, part))
    return this.#store.read(function* (tx) {
      return surveyed(yield* tx.operations.survey(act, scope))
    })
  }

  async deaths(id: string): Promise<readonly DeathsRow[]> {
    checkName('id', id)
    return this.#store.read(function* (tx) {
      stateOf(id, yield* tx.records.get(OPERATION, id))
      return yield* tx.operations.deaths(id)
    })
  }

  async undo(
    id: string,
    { limit, after = '' }: PageRequest,
    by: By,
  ): Promise<{ readonly undone: number; readonly next?: string }> {
    checkPage({ limit })
    checkPerson(by)
    return this.#change(id, function* (tx, { state, tally, now }) {
      refuseUndo(state)
      const restored = yield* restore(tx, state, { limit, after }, by, now)
      yield* save(tx, undoing(state, restored.undone, by, now), tally, now)
      return restored
    })
  }

  /** Changes an operation in one transaction, under its lock. */
  async #change<T>(id: string, body: (tx: Tx, found: LockedOperation) => Steps<T>): Promise<T> {
    checkName('id', id)
    return this.#store.write(function* (tx) {
      const [found] = yield* tx.records.lock(OPERATION, [id])
      const state = stateOf(id, found)
      return yield* body(tx, { state, ...(yield* tx.operations.tally(id)) })
    })
  }
}

/** Forgets operations that are over and have not changed for a time, up to a limit. Returns how many. */
export function* pruneOperations(tx: Tx, keepMs: number, limit: number): Steps<number> {
  const before = (yield* tx.clock.now()) - keepMs
  // Locked, so that nobody continues one of them meanwhile.
  const closed = yield* tx.records.lockClosed(OPERATION, before, limit)
  const over = closed.filter(record => isOver(record, before)).map(({ id }) => id)
  yield* tx.operations.dropTallies(over)
  yield* tx.records.drop(OPERATION, over)
  return over.length
}

/** The number of operations that `pruneOperations` would forget by now. */
export function* prunableOperations(tx: Tx, keepMs: number): Steps<number> {
  const before = (yield* tx.clock.now()) - keepMs
  let count = 0
  let place: RecordPlace | undefined = { place: before + 1, id: '' }
  while (place !== undefined) {
    const page: readonly StoredRecord[] = yield* tx.records.newest(OPERATION, false, place, PAGE)
    count += page.filter(record => isOver(record, before)).length
    place = page[PAGE - 1]
  }
  return count
}

/** Whether an operation is over and has not changed since a time. */
function isOver({ isOpen, state }: StoredRecord, before: number): boolean {
  return !isOpen && operationState(state).changedAt <= before
}

function* membersOf(
  tx: Tx,
  { act, set, createdAt }: OperationState,
  { limit, after, lane }: PageRequest & { readonly lane?: Lane | undefined },
): Steps<Page<OperationMember>> {
  if (isOutside(set) || 'schedule' in set) return { items: [] }
  if ('ids' in set) {
    const page = namedPage(set.ids, { limit, after, lane })
    return page.of(yield* tx.operations.namedMembers(act, page.ids, createdAt))
  }
  const { columns, part } = partsOf({ ...set.filter, ...lane })
  const scope = { filter: columns, until: set.until }
  if (part !== undefined) return yield* membersContaining(tx, act, scope, part, { limit, after })
  if (isArranging(act)) return yield* livingMembers(tx, scope, { limit, after })
  const place = after === undefined || act === 'cancel' ? OLDEST : taskPlace(after)
  return memberPage(act, yield* tx.operations.members(act, scope, place, limit + 1), { limit, after })
}

function* restore(
  tx: Tx,
  { id, act, set }: OperationState,
  { limit, after }: { readonly limit: number; readonly after: string },
  by: By,
  now: number,
): Steps<{ readonly undone: number; readonly next?: string }> {
  if ('schedule' in set) return yield* cancelBackfilled(tx, id, set, { limit, after }, by, now)
  if (isArranging(act)) return yield* restoreArranged(tx, id, after, limit, by, now)
  return yield* tx.operations.restore(id, after, limit, by, now)
}

function stateOf(id: string, found: StoredRecord | undefined): OperationState {
  if (found === undefined) throw new OperationNotFoundError(id)
  return operationState(found.state)
}

function* save(tx: Tx, { state, entry }: Transition, tally: OperationTally, now: number): Steps<OperationRecord> {
  const { id, createdAt: place } = state
  yield* tx.records.save(OPERATION, [{ id, place, isOpen: isOpen(state), state: JSON.stringify(state) }])
  if (entry !== undefined) yield* tx.audit.append(entry, now)
  return operationRecord(state, tally)
}

/** Does the act of an operation to these tasks or slots, as far as they are in its set. Returns the ids that it moved. */
function* act(
  tx: Tx,
  state: OperationState,
  { move: ids = [], slots = [], edits }: OperationStep,
  now: number,
): Steps<string[]> {
  const { id, by, set } = state
  const part = partOf(state)
  if ('schedule' in set) return slots.length === 0 ? [] : yield* backfillSlots(tx, id, set, slots, by, now)
  if (ids.length === 0) return []
  switch (state.act) {
    case 'redrive': {
      const moved: string[] =
        part.patch === undefined
          ? yield* redriveTasks(tx, ids, by, now, part)
          : yield* redrivePatched(tx, ids, by, now, part, part.patch, edits)
      const forgotten = forgottenSteps(state.settings)
      if (forgotten !== undefined) yield* tx.steps.forget(moved, forgotten)
      return moved
    }
    case 'discard':
      return yield* discardTasks(tx, ids, by, now, part)
    case 'cancel':
      return yield* cancelTasks(tx, ids, by, now)
    case 'promote':
    case 'reschedule':
    case 'prioritize': {
      const wanted = arrangementOf(state.act, state.settings, now)
      const tasks = [...new Set(ids)].map(id => ({ id, ...wanted }))
      return [...(yield* tx.tasks.arrange(tasks, MOVED[state.act], by, now, state.id))]
    }
    case 'backfill':
    case 'reset':
    case 'requeue':
      return []
  }
}

/** The steps that a redrive forgets. */
function forgottenSteps({ fromStep, forgetStep }: OperationSettings): ForgottenSteps | undefined {
  const name = fromStep ?? forgetStep
  return name === undefined ? undefined : { name, isAndLater: fromStep !== undefined }
}

/** Redrives tasks with another payload each. Leaves items of runs alone, and payloads that cannot be patched. */
function* redrivePatched(
  tx: Tx,
  ids: readonly string[],
  by: By,
  now: number,
  part: PartOfOperation,
  patch: PayloadPatch,
  encoded: readonly PayloadEdit[] = [],
): Steps<string[]> {
  const edits = new Map<string, PayloadEdit>()
  const known = new Map(encoded.map(edit => [edit.id, edit]))
  for (const { id, payload: before } of yield* tx.operations.deadPayloads(ids)) {
    const made = known.get(id)
    if (made?.before === before) {
      edits.set(id, made)
      continue
    }
    const edit = patchedPayload(before, patch)
    if ('payload' in edit) edits.set(id, { id, before, after: edit.payload })
  }
  // Items are not among them.
  const editable = ids.filter(id => edits.has(id))
  const moved = yield* redriveTasks(tx, editable, by, now, part)
  const edited = moved.flatMap(id => edits.get(id) ?? [])
  yield* tx.operations.replacePayloads(edited.filter(({ before, after }) => before !== after))
  return moved
}
