import type { Lane } from '../contract/lane.js'
import type { By } from '../contract/ledger.js'
import type { Page, PageRequest } from '../contract/list.js'
import type {
  DeathsRow,
  NewOperation,
  OperationAct,
  OperationMember,
  OperationRecord,
  OperationStep,
  OperationStore,
  OperationTally,
  PayloadPatch,
  SurveyRow,
  TakenOperation,
  TaskSet,
} from '../contract/operation-store.js'
import type { LockedOperation, PayloadEdit } from '../port/operation-port.js'
import type { Steps, Transactions, Tx } from '../port/steps.js'
import { checkBeat, checkName, checkPage, checkPerson } from '../rules/check.js'
import { NEWEST, OLDEST, pageByTime, taskPlace } from '../rules/cursor.js'
import { checkNewOperation, checkSet } from '../rules/operations/check-operation.js'
import { OperationNotFoundError } from '../rules/operations/errors.js'
import {
  isDrivenBy,
  isOutside,
  NO_TALLY,
  type OperationState,
  operationRecord,
  type PartOfOperation,
  partOf,
  refuseUndo,
  released,
} from '../rules/operations/operation-rules.js'
import { patchedPayload } from '../rules/operations/patch-payload.js'
import { ageOf, memberPage, namedPage, surveyed } from '../rules/operations/set.js'
import { changing, creation, leasing, stepping, type Transition, undoing } from '../rules/operations/transitions.js'
import { cancelTasks, redriveTasks } from './runs.js'

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
      const found = yield* tx.operations.get(id)
      return found && operationRecord(found.state, found.tally)
    })
  }

  async list(filter: { readonly isOpen?: boolean }, { limit, after }: PageRequest): Promise<Page<OperationRecord>> {
    checkPage({ limit })
    const before = after === undefined ? NEWEST : taskPlace(after)
    return this.#store.read(function* (tx) {
      const found = yield* tx.operations.list(filter.isOpen === true, before, limit + 1)
      const records = found.map(({ state, tally }) => operationRecord(state, tally))
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
      const moved = yield* act(tx, state, step.move ?? [], now)
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
      const { act, set, createdAt } = known(id, yield* tx.operations.get(id)).state
      if (isOutside(set)) return { items: [] }
      if ('ids' in set) {
        const page = namedPage(set.ids, { limit, after, lane })
        return page.of(yield* tx.operations.namedMembers(act, page.ids, createdAt))
      }
      const scope = { filter: { ...set.filter, ...lane }, until: set.until }
      const place = after === undefined || act === 'cancel' ? OLDEST : taskPlace(after)
      return memberPage(act, yield* tx.operations.members(act, scope, place, limit + 1), { limit, after })
    })
  }

  async survey(act: OperationAct, set: TaskSet): Promise<readonly SurveyRow[]> {
    checkSet(act, set)
    return this.#store.read(function* (tx) {
      if ('filter' in set) return surveyed(yield* tx.operations.survey(act, set))
      const now = yield* tx.clock.now()
      const named = yield* tx.operations.namedMembers(act, set.ids, now)
      return surveyed(
        named.map(({ kind, category, errorCode, isPaused, changedAt }) => {
          return { kind, category, errorCode, isPaused, age: ageOf(changedAt, now), count: 1 }
        }),
      )
    })
  }

  async deaths(id: string): Promise<readonly DeathsRow[]> {
    checkName('id', id)
    return this.#store.read(function* (tx) {
      known(id, yield* tx.operations.get(id))
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
      const restored = yield* tx.operations.restore(id, after, limit, by, now)
      yield* save(tx, undoing(state, restored.undone, by, now), tally, now)
      return restored
    })
  }

  /** Changes an operation in one transaction, under its lock. */
  async #change<T>(id: string, body: (tx: Tx, found: LockedOperation) => Steps<T>): Promise<T> {
    checkName('id', id)
    return this.#store.write(function* (tx) {
      return yield* body(tx, known(id, yield* tx.operations.lock(id)))
    })
  }
}

function known<Found>(id: string, found: Found | undefined): Found {
  if (found === undefined) throw new OperationNotFoundError(id)
  return found
}

function* save(tx: Tx, { state, entry }: Transition, tally: OperationTally, now: number): Steps<OperationRecord> {
  yield* tx.operations.save(state)
  if (entry !== undefined) yield* tx.audit.append(entry, now)
  return operationRecord(state, tally)
}

/** Does the act of an operation to these tasks, as far as they are in its set. Returns the ids that it moved. */
function* act(tx: Tx, state: OperationState, ids: readonly string[], now: number): Steps<string[]> {
  const { by } = state
  const part = partOf(state)
  if (ids.length === 0) return []
  switch (state.act) {
    case 'redrive':
      return part.patch === undefined
        ? yield* redriveTasks(tx, ids, by, now, part)
        : yield* redrivePatched(tx, ids, by, now, part, part.patch)
    case 'discard':
      return yield* tx.tasks.discard(ids, by, now, part)
    case 'cancel':
      return yield* cancelTasks(tx, ids, by, now)
    case 'reset':
    case 'requeue':
      return []
  }
}

/** Redrives tasks with another payload each. Leaves items of runs alone, and payloads that cannot be patched. */
function* redrivePatched(
  tx: Tx,
  ids: readonly string[],
  by: By,
  now: number,
  part: PartOfOperation,
  patch: PayloadPatch,
): Steps<string[]> {
  const edits = new Map<string, PayloadEdit>()
  for (const { id, payload: before } of yield* tx.operations.deadPayloads(ids)) {
    const edit = patchedPayload(before, patch)
    if ('payload' in edit) edits.set(id, { id, before, after: edit.payload })
  }
  const editable = ids.filter(id => edits.has(id))
  const moved = yield* tx.tasks.redrive(editable, by, now, part)
  const edited = moved.flatMap(id => edits.get(id) ?? [])
  yield* tx.operations.replacePayloads(edited.filter(({ before, after }) => before !== after))
  return moved
}
