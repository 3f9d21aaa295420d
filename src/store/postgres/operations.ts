import { checkBeat, checkName, checkPage } from '../check.js'
import { taskPlace } from '../cursor.js'
import type { Lane } from '../lane.js'
import type { By } from '../ledger.js'
import type { Page, PageRequest, TaskFilter } from '../list.js'
import {
  AGES,
  type DeathsRow,
  type NewOperation,
  type OperationAct,
  type OperationMember,
  type OperationRecord,
  type OperationStep,
  type OperationStore,
  type OperationTally,
  type PayloadPatch,
  type SurveyRow,
  type TakenOperation,
  type TaskSet,
} from '../operation-store.js'
import { checkNewOperation, checkPerson, checkSet } from '../operations/check-operation.js'
import { OperationNotFoundError } from '../operations/errors.js'
import {
  isDrivenBy,
  isOpen,
  isOutside,
  NO_TALLY,
  type OperationState,
  operationRecord,
  operationState,
  partOf,
  refuseUndo,
  released,
} from '../operations/operation-rules.js'
import { patchedPayload } from '../operations/patch-payload.js'
import { AGE_LIMITS_MS, memberPage, namedPage, operationPage, surveyed } from '../operations/set.js'
import { changing, creation, leasing, stepping, type Transition, undoing } from '../operations/transitions.js'
import { type Database, int4, LONG } from './database.js'
import { byValues, inOrder } from './operators.js'
import type { Call } from './run-records.js'
import type { PostgresRuns } from './runs.js'
import type { Signals } from './signals.js'
import { storable, stored } from './text.js'

interface Kept {
  readonly state: string
  readonly tally: OperationTally | null
}

interface LaneColumns extends Lane {
  readonly ordered: boolean
  readonly paused: boolean
}

/** A task that was named. */
interface MemberRow extends LaneColumns {
  readonly id: string
  readonly changed_at: number
}

/** Tasks as `lock_payloads` gives them. */
interface Payloads {
  readonly ids: readonly string[]
  readonly payloads: readonly string[]
}

/** Members as `members_json` gives them: each list but the last has a place for each member. */
interface MemberColumns {
  readonly ids: readonly string[]
  readonly times: readonly number[]
  readonly lanes: readonly number[]
  readonly known: readonly (LaneColumns & { readonly id: number })[]
}

/** The operations of a PostgreSQL store. A verb that changes one locks its row first. */
export class PostgresOperations implements OperationStore {
  readonly #database: Database
  readonly #runs: PostgresRuns
  readonly #signals: Signals

  constructor(database: Database, runs: PostgresRuns, signals: Signals) {
    this.#database = database
    this.#runs = runs
    this.#signals = signals
  }

  async create(operation: NewOperation): Promise<OperationRecord> {
    checkNewOperation(operation)
    return this.#database.callTogether(async call => {
      const now = Number(await call('now_ms', [this.#database.at]))
      return this.#save(call, creation(operation, now), NO_TALLY)
    })
  }

  async get(id: string): Promise<OperationRecord | undefined> {
    checkName('id', id)
    const [record] = await this.#read([id, null, null, null, 1])
    return record
  }

  async list(filter: { readonly isOpen?: boolean }, { limit, after }: PageRequest): Promise<Page<OperationRecord>> {
    checkPage({ limit })
    const place = after === undefined ? undefined : taskPlace(after)
    const isOpen = filter.isOpen === true ? true : null
    const found = await this.#read([null, isOpen, place?.changedAt ?? null, place?.id ?? null, int4(limit + 1)])
    return operationPage(found, limit)
  }

  async take(id: string, driver: string, leaseMs: number): Promise<TakenOperation | undefined> {
    checkBeat({ worker: driver, leaseMs })
    return this.#change(id, async (call, before, tally, now) => {
      const lease = leasing(before, driver, leaseMs, now)
      return lease && { operation: await this.#save(call, lease, tally), token: lease.token }
    })
  }

  async step(
    id: string,
    token: string,
    step: OperationStep,
  ): Promise<{ readonly operation: OperationRecord; readonly moved: readonly string[] } | undefined> {
    const result = await this.#change(id, async (call, before, tally, now) => {
      if (!isDrivenBy(before, token)) return undefined
      const moved = await this.#act(call, before, step.move ?? [])
      return { operation: await this.#save(call, stepping(before, step, moved.length, tally, now), tally), moved }
    })
    if (result !== undefined && result.moved.length > 0) this.#signals.ring()
    return result
  }

  async release(id: string, token: string): Promise<void> {
    await this.#change(id, (call, state, tally) => this.#save(call, { state: released(state, token) }, tally))
  }

  async change(id: string, change: 'stop' | 'continue', by: By): Promise<OperationRecord> {
    checkPerson(by)
    return this.#change(id, (call, before, tally, now) =>
      this.#save(call, changing(before, change, tally, by, now), tally),
    )
  }

  async members(
    id: string,
    { limit, after, lane }: PageRequest & { readonly lane?: Lane },
  ): Promise<Page<OperationMember>> {
    checkPage({ limit })
    const operation = await this.#found(id)
    const { act, set } = operation
    if (isOutside(set)) return { items: [] }
    if ('ids' in set) {
      const page = namedPage(set.ids, { limit, after, lane })
      return page.of(await this.#named(operation, page.ids))
    }
    const [kind, category, key, error, group] = scopeOf({ ...set.filter, ...lane })
    const lanes = [kind, category, key, error]
    if (act === 'cancel') {
      const living = await this.#membersBy('living_members', [...lanes, group, set.until, int4(limit + 1)])
      return memberPage(act, living, { limit, after })
    }
    const place = after === undefined ? { changedAt: 0, id: '' } : taskPlace(after)
    const page = [set.until, place.changedAt, place.id, int4(limit + 1)]
    const dead =
      group === null
        ? await this.#membersBy('dead_members', [...lanes, ...page])
        : await this.#membersBy('group_members', [group, ...lanes, ...page])
    return memberPage(act, dead, { limit, after })
  }

  async survey(act: OperationAct, set: TaskSet): Promise<readonly SurveyRow[]> {
    checkSet(act, set)
    const [facts] = (await this.#database.query(FACTS, [this.#database.at], LONG)) as SurveyFacts[]
    const scope = 'ids' in set ? [...scopeOf({}), Number.MAX_SAFE_INTEGER] : [...scopeOf(set.filter), set.until]
    const values = [...scope, facts?.now, ...('ids' in set ? [set.ids] : [])]
    const rows = (await this.#database.query(surveyOf(act, set, facts), values, LONG)) as SurveyedRow[]
    return surveyed(
      rows.map(({ kind, category, error_code, paused, age, count }) => {
        const errorCode = stored(error_code ?? undefined)
        return { kind, category, errorCode, isPaused: paused, age: AGES[Number(age)] ?? 'older', count: Number(count) }
      }),
    )
  }

  async deaths(id: string): Promise<readonly DeathsRow[]> {
    await this.#found(id)
    const rows = (await this.#database.query(DEATHS, [id], LONG)) as (Omit<SurveyedRow, 'category'> & {
      readonly failure_group: string | null
    })[]
    return rows.map(({ kind, error_code, failure_group, count }) => {
      const group = failure_group ?? undefined
      return { kind, errorCode: stored(error_code ?? undefined), group, count: Number(count) }
    })
  }

  async undo(
    id: string,
    { limit, after = '' }: PageRequest,
    by: By,
  ): Promise<{ readonly undone: number; readonly next?: string }> {
    checkPage({ limit })
    checkPerson(by)
    return this.#change(id, async (call, state, tally, now) => {
      refuseUndo(state)
      const answer = await call('undo_members', [id, after, int4(limit), ...byValues(by), this.#database.at])
      const { undone: count, next } = answer as { readonly undone: number; readonly next: string | null }
      await this.#save(call, undoing(state, count, by, now), tally)
      return next === null ? { undone: count } : { undone: count, next }
    })
  }

  #act(call: Call, state: OperationState, ids: readonly string[]): Promise<string[]> {
    const { act, by } = state
    if (ids.length === 0) return Promise.resolve([])
    const part = partOf(state)
    switch (act) {
      case 'redrive':
        return part.patch === undefined
          ? this.#runs.redriveWith(call, ids, by, part)
          : this.#redrivePatched(call, ids, state, part.patch)
      case 'discard': {
        const values = [ids, ...byValues(by), part.operation, part.diedUntil, this.#database.at]
        return call('discard', values).then(answer => inOrder(ids, answer))
      }
      case 'cancel':
        return this.#runs.cancelWith(call, ids, by)
      case 'reset':
      case 'requeue':
        return Promise.resolve([])
    }
  }

  /**
   * Redrives members with another payload each. The original goes to the row of the redrive. Leaves items of runs alone, and
   * payloads that cannot be patched.
   */
  async #redrivePatched(
    call: Call,
    ids: readonly string[],
    state: OperationState,
    patch: PayloadPatch,
  ): Promise<string[]> {
    const dead = JSON.parse(String(await call('lock_payloads', [ids]))) as Payloads
    const edits = dead.ids.flatMap((id, index) => {
      const before = dead.payloads[index] ?? ''
      const edit = patchedPayload(before, patch)
      return 'problem' in edit ? [] : [[id, { before, after: edit.payload }] as const]
    })
    const edited = new Map(edits)
    const moved = await this.#runs.redriveWith(
      call,
      ids.filter(id => edited.has(id)),
      state.by,
      partOf(state),
    )
    const changed = moved.flatMap(id => {
      const { before, after } = edited.get(id) ?? {}
      return after === undefined || after === before ? [] : { id, payload: after }
    })
    if (changed.length > 0)
      await call('replace_payloads', [changed.map(({ id }) => id), changed.map(({ payload }) => payload)])
    return moved
  }

  async #named({ act, createdAt }: OperationRecord, ids: readonly string[]): Promise<OperationMember[]> {
    const answer = await this.#database.query(namedMembers(act), [ids, createdAt], LONG)
    const known = new Map((answer as MemberRow[]).map(row => [row.id, memberOf(row)]))
    return ids.flatMap(id => known.get(id) ?? [])
  }

  async #membersBy(fn: string, values: unknown[]): Promise<OperationMember[]> {
    const { ids, times, lanes, known } = JSON.parse(
      String(await this.#database.call(fn, values, LONG)),
    ) as MemberColumns
    const byId = new Map(known.map(lane => [lane.id, lane]))
    return ids.flatMap((id, index) => {
      const lane = byId.get(lanes[index] ?? 0)
      if (lane === undefined) return []
      const { kind, category, key, ordered, paused } = lane
      return { id, kind, category, key, changedAt: times[index] ?? 0, isOrdered: ordered, isPaused: paused }
    })
  }

  async #found(id: string): Promise<OperationRecord> {
    const found = await this.get(id)
    if (found === undefined) throw new OperationNotFoundError(id)
    return found
  }

  async #read(values: unknown[]): Promise<OperationRecord[]> {
    const kept = (await this.#database.call('read_operations', values, LONG)) as Kept[]
    return kept.map(({ state, tally }) => operationRecord(operationState(state), tally ?? NO_TALLY))
  }

  /** Changes an operation in one transaction, under its lock. */
  async #change<T>(
    id: string,
    work: (call: Call, state: OperationState, tally: OperationTally, now: number) => Promise<T>,
  ): Promise<T> {
    checkName('id', id)
    return this.#database.callTogether(async call => {
      const found = (await call('lock_operation', [id, this.#database.at])) as (Kept & { readonly now: number }) | null
      if (found === null) throw new OperationNotFoundError(id)
      return work(call, operationState(found.state), found.tally ?? NO_TALLY, found.now)
    })
  }

  async #save(call: Call, { state, entry }: Transition, tally: OperationTally): Promise<OperationRecord> {
    const { id, createdAt } = state
    await call('save_operation', [id, createdAt, isOpen(state), JSON.stringify(state)])
    if (entry !== undefined) await call('append_audit', [JSON.stringify([entry]), this.#database.at])
    return operationRecord(state, tally)
  }
}

function memberOf({ id, kind, category, key, changed_at, ordered, paused }: MemberRow): OperationMember {
  return { id, kind, category, key, changedAt: Number(changed_at), isOrdered: ordered, isPaused: paused }
}

/** The number of the age limits that a state has passed. Counts come as text. */
interface SurveyedRow {
  readonly kind: string
  readonly category: string
  readonly error_code: string | null
  readonly paused: boolean
  readonly age: number
  readonly count: string
}

/** The fields of a filter as the functions take them. */
function scopeOf({ kind, category, key, errorCode, group }: TaskFilter): (string | null)[] {
  return [kind ?? null, category ?? null, key ?? null, storable(errorCode) ?? null, group ?? null]
}

const IS_DEAD = 'task.state = redrive.state_dead()'
const IS_LIVING = 'task.state = redrive.state_running() AND NOT task.cancel_requested'

const PASSED_AGES = AGE_LIMITS_MS.map(limit => `($7::bigint - task.changed_at >= ${limit})::int`).join(' + ')

/**
 * All members are looked at, so the planner is free to join them as it likes. They are counted by lane first: there are far
 * fewer lanes to be joined than tasks.
 */
function survey(from: string, condition: string, since: string): string {
  return /* sql */ `
    SELECT lane.kind, lane.category, counted.error_code, lane.paused, counted.age, sum(counted.count) AS count
    FROM (
      SELECT task.lane, task.error_code, ${PASSED_AGES} AS age, count(*) AS count
      FROM ${from}
      WHERE ${condition} AND ${since} <= $6 AND ($4::text IS NULL OR task.error_code = $4)
        AND ($5::text IS NULL OR task.failure_group = $5)
      GROUP BY 1, 2, 3
    ) AS counted JOIN redrive.lane ON lane.id = counted.lane
    WHERE ($1::text IS NULL OR lane.kind = $1) AND ($2::text IS NULL OR lane.category = $2)
      AND ($3::text IS NULL OR lane.key = $3)
    GROUP BY 1, 2, 3, 4, 5`
}

interface SurveyFacts {
  readonly now: string
  readonly is_dead_many: boolean
}

/** The time, and whether so many tasks are dead that reading them all is faster than finding the dead ones. */
const FACTS = /* sql */ `
  SELECT redrive.now_ms($1) AS now,
    10 * sum(dead) > sum(waiting + running + succeeded + skipped + dead + cancelled) AS is_dead_many
  FROM redrive.tally`

function surveyOf(act: OperationAct, set: TaskSet, facts: SurveyFacts | undefined): string {
  if ('ids' in set) return surveyNamed(act)
  if (act === 'cancel') return SURVEY_LIVING
  if (set.filter.group !== undefined) return SURVEY_GROUP
  return facts?.is_dead_many === true ? SURVEY_MANY_DEAD : SURVEY_DEAD
}

const SURVEY_MANY_DEAD = survey('redrive.task', IS_DEAD, 'task.changed_at')

const SURVEY_GROUP = survey(
  'redrive.task',
  `${IS_DEAD} AND task.failure_state = redrive.state_dead()`,
  'task.failure_at',
)

const SURVEY_DEAD = survey(
  /* sql */ `
    redrive.ended CROSS JOIN unnest(ended.tasks) AS one (id)
    JOIN redrive.task ON task.id = one.id AND task.changed_at = ended.at AND ended.state = redrive.state_dead()`,
  IS_DEAD,
  'ended.at',
)

const SURVEY_LIVING = survey(
  /* sql */ `
    (
      SELECT waiting.task AS id, NULL::int AS round FROM redrive.waiting
      UNION ALL
      SELECT one.id, one.round FROM redrive.claim CROSS JOIN unnest(claim.tasks, claim.rounds) AS one (id, round)
    ) AS living
    JOIN redrive.task ON task.id = living.id AND task.round = coalesce(living.round, task.round)`,
  IS_LIVING,
  'task.submitted_at',
)

function surveyNamed(act: OperationAct): string {
  const condition = act === 'cancel' ? IS_LIVING : IS_DEAD
  return survey('unnest($8::text[]) AS one (id) JOIN redrive.task ON task.id = one.id', condition, 'task.submitted_at')
}

function namedMembers(act: OperationAct): string {
  return /* sql */ `
    SELECT task.id, lane.kind, lane.category, lane.key, task.changed_at, lane.ordered, lane.paused
    FROM redrive.task JOIN redrive.lane ON lane.id = task.lane
    WHERE task.id = ANY ($1::text[]) AND ${act === 'cancel' ? `${IS_LIVING} AND $2::bigint IS NOT NULL` : `${IS_DEAD} AND task.changed_at <= $2`}`
}

const DEATHS = /* sql */ `
  SELECT lane.kind, task.error_code, task.failure_group, count(*) AS count
  FROM redrive.task JOIN redrive.lane ON lane.id = task.lane
  WHERE task.operation = $1 AND ${IS_DEAD}
  GROUP BY 1, 2, 3`
