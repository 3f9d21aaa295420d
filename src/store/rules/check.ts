import { OptionError } from '../../policy/index.js'
import { checkOptions, quoted } from '../../policy/internal.js'
import { isTraceparent } from '../../telemetry/internal.js'
import type { Beat, ClaimRequest, Outcome, Settlement } from '../contract/claim.js'
import type { CostField, CostFilter } from '../contract/cost.js'
import type { FailureGroup, GroupFilter, GroupMark } from '../contract/group-store.js'
import type { Lane, LaneSelection } from '../contract/lane.js'
import type { By } from '../contract/ledger.js'
import type { CountField, PageRequest, TaskFilter } from '../contract/list.js'
import type { StepRecording } from '../contract/step.js'
import type { FailedTask, OnceOptions, Retention } from '../contract/store.js'
import type { Cost, NewTask, TaskStatus } from '../contract/task.js'
import { checkUnique } from './check-unique.js'
import { checkJsonObject } from './json-object.js'
import { checkCounts } from './retention.js'
import { MAX_NAME_BYTES } from './storable-name.js'

/**
 * Checks of the arguments of a store's verbs. Every store makes them before it does anything, so an argument that one of
 * them could not keep is the same `OptionError` on all of them.
 */

/** The id of a group may have a kind in it. */
const MAX_GROUP_BYTES = 1000

/** Most names are plain ASCII, and need no closer look. */
const PLAIN_NAME = /^[\x01-\x7f]{0,512}$/

/** No date is further from the epoch, in milliseconds. */
const MAX_TIME = 8.64e15

const STATUSES: readonly TaskStatus[] = ['waiting', 'running', 'succeeded', 'skipped', 'dead', 'cancelled']

/** Checks an id, a kind, a category, a key, or the name of a worker or a person. */
export function checkName(option: string, name: unknown): asserts name is string {
  if (typeof name === 'string' && PLAIN_NAME.test(name)) return
  checkText(option, name)
  const bytes = Buffer.byteLength(name)
  if (bytes > MAX_NAME_BYTES)
    throw new OptionError(option, `'${option}' must be at most ${MAX_NAME_BYTES} bytes long, got ${bytes}.`)
}

export function checkIds(ids: readonly string[]): void {
  if (!Array.isArray(ids)) throw new OptionError('ids', `'ids' must be a list, got ${quoted(ids)}.`)
  for (const id of ids) checkName('id', id)
}

export function checkNewTask(task: NewTask): void {
  const { id, kind, category, key, quota, payload, priority, submittedAt, runAt, cost, traceparent } = task
  const { unique, policy, tried } = task
  if (id !== undefined) checkName('id', id)
  if (id === '') throw new OptionError('id', "'id' must not be empty. Leave it out to have one generated.")
  checkName('kind', kind)
  if (category !== undefined) checkName('category', category)
  if (key !== undefined) checkName('key', key)
  if (quota !== undefined) checkQuota(quota, key)
  checkText('payload', payload)
  checkNumber('priority', priority, Number.MAX_VALUE)
  checkNumber('submittedAt', submittedAt, MAX_TIME)
  checkNumber('runAt', runAt, MAX_TIME)
  if (cost !== undefined) checkCost('cost', cost)
  if (traceparent !== undefined) checkTraceparent(traceparent)
  if (unique !== undefined) {
    checkUnique(task, unique)
    checkName('unique.key', unique.key)
  }
  if (policy !== undefined) checkText('policy', policy)
  if (tried !== undefined) checkOutcome(tried.outcome)
  if (tried?.attempt.group !== undefined) checkGroup(tried.attempt.group)
}

/** All tasks of a lane have the same quota, so those of different quotas must not end up in a lane without a key. */
function checkQuota(quota: string, key: string | undefined): void {
  checkName('quota', quota)
  if (quota === '') throw new OptionError('quota', "'quota' must not be empty. Leave it out if there is none.")
  if (key === undefined || key === '') {
    const advice = `Without an order to keep, use the quota as the key, and limit each lane: key: ${quoted(quota)}.`
    throw new OptionError('quota', `'quota' needs a 'key', the lane whose tasks count towards it. ${advice}`)
  }
}

export function checkClaim({ worker, leaseMs, limit, rooms }: ClaimRequest): void {
  checkBeat({ worker, leaseMs })
  checkLimit(limit)
  for (const room of rooms) {
    for (const kind of room.kinds) checkName('kind', kind)
    for (const category of room.categories ?? []) checkName('category', category)
    if (room.limit !== undefined) checkLimit(room.limit)
  }
}

export function checkSettlement({ id, token, outcome, attempt, used, ifDead }: Settlement): void {
  checkName('id', id)
  checkName('token', token)
  checkOutcome(outcome)
  if (attempt?.version !== undefined) checkName('version', attempt.version)
  if (attempt?.release !== undefined) checkName('release', attempt.release)
  if (attempt?.call !== undefined) checkName('call', attempt.call)
  if (attempt?.trace !== undefined) checkName('trace', attempt.trace)
  if (attempt?.group !== undefined) checkGroup(attempt.group)
  if (used !== undefined) checkCost('used', used)
  ifDead?.forEach(checkNewTask)
}

export function checkStep({ id, token, name, result, state }: StepRecording): void {
  checkName('id', id)
  checkName('token', token)
  checkName('name', name)
  if (name === '') throw new OptionError('name', "The 'name' of a step must not be empty.")
  if (result !== undefined) checkText('result', result)
  checkText('state', state)
}

export function checkBeat({ worker, leaseMs, release, kinds = [], categories = [], host, grouping }: Beat): void {
  checkName('worker', worker)
  if (grouping !== undefined) checkName('grouping', grouping)
  if (release !== undefined) checkName('release', release)
  for (const kind of kinds) checkName('kind', kind)
  for (const category of categories) checkName('category', category)
  if (host !== undefined) checkName('host', host)
  if (!(leaseMs >= 0 && leaseMs <= MAX_TIME))
    throw new OptionError('leaseMs', `'leaseMs' must be a number of milliseconds, got ${quoted(leaseMs)}.`)
}

/** Checks a selection of lanes that is acted on: a kind that was mistyped must not mean every lane. */
export function checkLaneSelection(lanes: LaneSelection): void {
  checkName('kind', lanes.kind)
  checkLanes(lanes)
}

export function checkPause({ isPaused, ...by }: { readonly isPaused: boolean } & Partial<By>): void {
  if (typeof isPaused !== 'boolean')
    throw new OptionError('isPaused', `'isPaused' must be true or false, got ${quoted(isPaused)}.`)
  checkBy(by)
}

/** Checks the fields of a lane, or of a selection of lanes, that are given. */
export function checkLanes({ kind, category, key, ...others }: Partial<Lane>): void {
  checkNoOthers(others, 'kind, category, key')
  if (kind !== undefined) checkName('kind', kind)
  if (category !== undefined) checkName('category', category)
  if (key !== undefined) checkName('key', key)
}

const COUNT_FIELDS: readonly CountField[] = ['kind', 'category', 'key', 'status', 'errorCode', 'reason', 'group']

const COST_FIELDS: readonly CostField[] = ['kind', 'category', 'key']

export function checkCosts({ since, ...lanes }: CostFilter, by: readonly CostField[]): void {
  checkLanes(lanes)
  if (since !== undefined) checkTime('since', since)
  const unknown = by.find(field => !COST_FIELDS.includes(field))
  if (unknown !== undefined)
    throw new OptionError('by', `Costs are added up by ${COST_FIELDS.join(', ')}, got ${quoted(unknown)}.`)
}

export function checkCountFields(fields: readonly CountField[]): void {
  const unknown = fields.find(field => !COUNT_FIELDS.includes(field))
  if (unknown !== undefined)
    throw new OptionError('fields', `Tasks are counted by ${COUNT_FIELDS.join(', ')}, got ${quoted(unknown)}.`)
}

export function checkFilter({
  status,
  errorCode,
  group,
  kind,
  category,
  key,
  unique,
  where,
  ...others
}: TaskFilter): void {
  checkNoOthers(others, 'kind, category, key, status, errorCode, group, unique, where')
  if (unique !== undefined) checkName('unique', unique)
  if (where !== undefined) checkJsonObject('where', where, 'the fields to look for')
  checkLanes({ kind, category, key })
  if (status !== undefined && !STATUSES.includes(status))
    throw new OptionError('status', `'status' must be one of ${STATUSES.join(', ')}, got ${quoted(status)}.`)
  // The code of a failure may be any text.
  if (errorCode !== undefined && typeof errorCode !== 'string')
    throw new OptionError('errorCode', `'errorCode' must be text, got ${quoted(errorCode)}.`)
  if (group !== undefined) checkGroupId(group)
}

/** Refuses a unique key where tasks are found in another way. */
export function checkNotUnique(what: string, { unique }: TaskFilter): void {
  if (unique === undefined) return
  throw new OptionError('unique', `${what} not selected by 'unique'. List the tasks with that key, and name them.`)
}

export function checkGroupFilter({ kind, states, ...others }: GroupFilter): void {
  checkNoOthers(others, 'kind, states')
  if (kind !== undefined) checkName('kind', kind)
  for (const state of states ?? []) checkGroupState('states', state, GROUP_STATES)
}

const GROUP_STATES = ['new', 'acknowledged', 'fixed', 'ignored', 'regressed'] as const

function checkGroupState(option: string, state: unknown, known: readonly string[]): void {
  if (typeof state === 'string' && known.includes(state)) return
  throw new OptionError(option, `The states of a group are ${known.join(', ')}, got ${quoted(state)}.`)
}

/** `regressed` is for settlements to find. */
export function checkMark(mark: GroupMark): void {
  checkGroupState('state', mark?.state, ['new', 'acknowledged', 'fixed', 'ignored'])
  if (mark.state === 'fixed' && mark.release !== undefined) checkName('release', mark.release)
  if (mark.state !== 'ignored') return
  const { at, count, perHour } = mark.until ?? {}
  for (const [option, value] of Object.entries({ at, count, perHour })) {
    if (value === undefined || (Number.isSafeInteger(value) && value >= 0)) continue
    throw new OptionError(option, `'until.${option}' must be a whole number, 0 or more, got ${quoted(value)}.`)
  }
}

/** The id of a group may have a kind and a code in it. */
export function checkGroupId(id: unknown): asserts id is string {
  if (typeof id === 'string' && PLAIN_NAME.test(id)) return
  checkText('group', id)
  const bytes = Buffer.byteLength(id)
  if (bytes > MAX_GROUP_BYTES)
    throw new OptionError('group', `'group' must be at most ${MAX_GROUP_BYTES} bytes long, got ${bytes}.`)
}

export function checkGroup({ id, kind, code, errorName, pattern, frames }: FailureGroup): void {
  checkGroupId(id)
  checkName('kind', kind)
  const texts = [code, errorName, pattern, ...frames]
  const other = texts.find(text => typeof text !== 'string')
  if (other !== undefined) throw new OptionError('group', `The facts of a group must be texts, got ${quoted(other)}.`)
}

export function checkPage({ limit }: PageRequest): void {
  checkLimit(limit)
}

export function checkRetention({ counts, ...ages }: Retention): void {
  for (const [option, ms] of Object.entries(ages)) checkNumber(option, ms, Number.MAX_VALUE)
  checkCounts(counts)
}

/** A reason is repeated wherever its act is shown. */
const MAX_WHY = 1000

/** Checks who asked and why, as far as they are given. */
export function checkBy({ who, why }: Partial<By> = {}): void {
  if (who !== undefined) checkName('who', who)
  if (why !== undefined && typeof why !== 'string')
    throw new OptionError('why', `'why' must be text, got ${quoted(why)}.`)
  if (why !== undefined && why.length > MAX_WHY)
    throw new OptionError('why', `'why' may have up to ${MAX_WHY} characters, and has ${why.length}.`)
}

/** Checks the person who asked for an act that is on record. */
export function checkPerson(by: By): void {
  checkName('who', by?.who)
  checkBy(by)
}

/** Work that is given up for good has a reason. */
export function checkDiscard(by: Required<By>): void {
  checkReason(by, 'they are discarded')
}

/** Checks the arguments of `fail`. The reason becomes the last error of the tasks. */
export function checkFail(tasks: readonly FailedTask[], by: Required<By>): void {
  if (!Array.isArray(tasks)) throw new OptionError('tasks', `'tasks' must be a list, got ${quoted(tasks)}.`)
  for (const { id, ifDead = [] } of tasks as readonly FailedTask[]) {
    checkName('id', id)
    ifDead.forEach(checkNewTask)
  }
  checkReason(by, 'they have failed')
}

function checkReason(by: Required<By>, what: string): void {
  checkPerson(by)
  if (by.why === undefined || by.why.trim() === '') throw new OptionError('why', `'why' must say why ${what}.`)
}

/** Checks the arguments of `completeIn`. Its result is JSON text. */
export function checkCompletion(fence: OnceOptions['fence'], options: { readonly result?: string | undefined }): void {
  if (fence === undefined)
    throw new OptionError('fence', "Pass the task's own 'fence': it names the task and its claim.")
  checkFence({ fence })
  checkOptions('completeIn()', options, { result: '' })
  if (options.result === undefined) return
  checkText('result', options.result)
  try {
    JSON.parse(options.result)
  } catch {
    throw new OptionError('result', `'result' must be JSON text, got ${quoted(options.result)}.`)
  }
}

export function checkFence({ fence }: OnceOptions): void {
  if (fence === undefined) return
  checkName('id', fence.id)
  checkName('token', fence.token)
}

function checkOutcome(outcome: Outcome): void {
  if ('delayMs' in outcome && !(outcome.delayMs <= MAX_TIME))
    throw new OptionError('delayMs', `'delayMs' must be a number of milliseconds, got ${quoted(outcome.delayMs)}.`)
  if (outcome.type !== 'advanced') return
  checkName('to', outcome.to)
  checkText('value', outcome.value)
  if (outcome.cost !== undefined) checkCost('cost', outcome.cost)
}

function checkTraceparent(traceparent: unknown): void {
  if (isTraceparent(traceparent)) return
  const form = '00-<32 hexadecimal digits>-<16>-<2>'
  throw new OptionError('traceparent', `'traceparent' must have the form ${form}, got ${quoted(traceparent)}.`)
}

export function checkCost(option: string, cost: Cost): void {
  if (typeof cost !== 'object' || cost === null)
    throw new OptionError(option, `'${option}' must have a number for each bucket, got ${quoted(cost)}.`)
  for (const [bucket, amount] of Object.entries(cost)) {
    checkName(option, bucket)
    if (!(Number.isFinite(amount) && amount >= 0))
      throw new OptionError(option, `'${option}.${bucket}' must be a number, 0 or more, got ${quoted(amount)}.`)
  }
}

/** A field that was mistyped must not match everything. */
function checkNoOthers(others: object, fields: string): void {
  const [other] = Object.keys(others)
  if (other !== undefined)
    throw new OptionError(other, `There is no field ${quoted(other)} to select by. The fields are: ${fields}.`)
}

export function checkText(option: string, text: unknown): asserts text is string {
  if (typeof text !== 'string') throw new OptionError(option, `'${option}' must be text, got ${quoted(text)}.`)
  if (/[\0\p{Surrogate}]/u.test(text))
    throw new OptionError(option, `'${option}' must not contain NUL or half a surrogate pair, got ${quoted(text)}.`)
}

export function checkLimit(limit: unknown): void {
  if (Number.isSafeInteger(limit) && Number(limit) >= 0) return
  throw new OptionError('limit', `'limit' must be a whole number, 0 or more, got ${quoted(limit)}.`)
}

/** Checks a time in milliseconds since the epoch. */
export function checkTime(option: string, time: unknown): void {
  if (time === undefined) throw new OptionError(option, `'${option}' is missing: a time in milliseconds.`)
  checkNumber(option, time, MAX_TIME)
}

function checkNumber(option: string, value: unknown, max: number): void {
  if (value === undefined || (typeof value === 'number' && Math.abs(value) <= max)) return
  throw new OptionError(option, `'${option}' must be a number, got ${quoted(value)}.`)
}
