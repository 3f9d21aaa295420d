import { OptionError } from '../../../policy/index.js'
import { checkOptions, type KnownOptions, quoted } from '../../../policy/internal.js'
import {
  type FixedRelease,
  type NewOperation,
  OPERATION_ACTS,
  type OperationAct,
  type OperationSet,
  type OperationSettings,
  type OutsideSet,
  type PayloadPatch,
  type SlotSet,
  TWIN_RULES,
} from '../../contract/operation-store.js'
import {
  checkDiscard,
  checkFilter,
  checkIds,
  checkName,
  checkNotUnique,
  checkPerson,
  checkText,
  checkTime,
} from '../check.js'
import { checkJsonObject } from '../json-object.js'
import { checkScheduleName } from '../schedules/check-schedule.js'
import { isOutside } from './operation-rules.js'

/** Checks of the arguments of an operation's verbs, which every store makes before it does anything. */

const SETTINGS: KnownOptions<OperationSettings> = {
  patch: '',
  fromStep: '',
  forgetStep: '',
  twin: '',
  fixedIn: 'object',
  runAt: '',
  priority: '',
  canary: '',
  stopAbove: '',
  perSecond: '',
  limit: '',
  atOnce: '',
  answerWithinMs: '',
}

export function checkNewOperation({ act, set, by, settings = {} }: NewOperation): void {
  checkSet(act, set)
  checkPerson(by)
  if (act === 'discard') checkDiscard({ why: '', ...by })
  checkOptions('An operation', settings, SETTINGS)
  const { canary, stopAbove, perSecond, limit, answerWithinMs } = settings
  if (canary !== undefined && !(Number.isSafeInteger(canary) && canary >= 1 && canary <= 1000))
    throw new OptionError('canary', `'canary' must be a whole number from 1 to 1000, got ${quoted(canary)}.`)
  if (stopAbove !== undefined && !(stopAbove >= 0 && stopAbove <= 1))
    throw new OptionError('stopAbove', `'stopAbove' must be a share from 0 to 1, got ${quoted(stopAbove)}.`)
  if (act !== 'redrive' && (canary ?? stopAbove) !== undefined)
    throw new OptionError('canary', `Only a redrive can have a canary: a ${act} makes no attempts.`)
  checkFixedIn(act, set, settings.fixedIn)
  checkPatch(act, settings.patch)
  checkForgotten(act, settings)
  checkArrangement(act, settings)
  if (settings.twin !== undefined && act !== 'redrive')
    throw new OptionError('twin', `Only a redrive can meet twins, and not a ${act}.`)
  checkTwin(settings.twin)
  checkAtOnce(act, settings.atOnce)
  if (limit !== undefined && !(Number.isSafeInteger(limit) && limit >= 1))
    throw new OptionError('limit', `'limit' must be a whole number above 0, got ${quoted(limit)}.`)
  checkPositive('perSecond', perSecond)
  checkPositive('answerWithinMs', answerWithinMs)
}

/** Checks what a redrive does about twins. */
export function checkTwin(twin: unknown): void {
  if (twin === undefined || TWIN_RULES.some(rule => rule === twin)) return
  throw new OptionError('twin', `'twin' must be one of ${TWIN_RULES.join(', ')}, got ${quoted(twin)}.`)
}

/** Checks the steps that an operation forgets. */
function checkForgotten(act: OperationAct, { fromStep, forgetStep }: OperationSettings): void {
  const step = fromStep ?? forgetStep
  if (step === undefined) return
  const option = fromStep === undefined ? 'forgetStep' : 'fromStep'
  checkName(option, step)
  if (act !== 'redrive') throw new OptionError(option, `Only a redrive can forget steps, and not a ${act}.`)
  if (fromStep !== undefined && forgetStep !== undefined)
    throw new OptionError('forgetStep', "Pass 'fromStep' or 'forgetStep', but only one of them.")
}

/** Checks the time and the priority that members are to get. */
function checkArrangement(act: OperationAct, { runAt, priority }: OperationSettings): void {
  if (act === 'reschedule') checkTime('runAt', runAt)
  else if (runAt !== undefined) throw new OptionError('runAt', `Only a reschedule can have a time, and not a ${act}.`)
  const isNumber = typeof priority === 'number' && Number.isFinite(priority)
  if (act === 'prioritize' && !isNumber)
    throw new OptionError('priority', `'priority' must be a number, got ${quoted(priority)}.`)
  if (act !== 'prioritize' && priority !== undefined)
    throw new OptionError('priority', `Only a prioritize can have a priority, and not a ${act}.`)
}

export function checkSet(act: OperationAct, set: OperationSet): void {
  if (!OPERATION_ACTS.includes(act))
    throw new OptionError('act', `'act' must be one of ${OPERATION_ACTS.join(', ')}, got ${quoted(act)}.`)
  const [field, what] = NEEDED[act] ?? []
  if (field === undefined ? isOutside(set) || 'schedule' in set : !(field in set))
    throw new OptionError('set', `A ${act} needs ${what ?? "tasks: 'ids', or 'filter' and 'until'"}.`)
  if (isOutside(set)) return checkOutside(set)
  if ('schedule' in set) return checkSlots(set)
  if ('ids' in set) return checkIds(set.ids)
  checkTime('until', set.until)
  if ('status' in set.filter) throw new OptionError('status', 'The act of an operation says which status it is about.')
  checkFilter(set.filter)
  checkNotUnique('The members of an operation are', set.filter)
}

/** The acts whose members are no tasks: the field of their sets, and what it is about. */
const NEEDED: Readonly<Partial<Record<OperationAct, readonly [field: string, what: string]>>> = {
  reset: ['collection', "the documents of a 'collection'"],
  requeue: ['queue', "the messages of a failed 'queue'"],
  backfill: ['schedule', "the slots of a 'schedule'"],
}

function checkSlots({ schedule, generation, from, to, count }: SlotSet): void {
  checkScheduleName(schedule)
  checkTime('from', from)
  checkTime('to', to)
  checkCount('generation', generation)
  checkCount('count', count)
}

/** Checks how many runs of a backfill may be unfinished. The record of the operation has their ids. */
function checkAtOnce(act: OperationAct, atOnce: number | undefined): void {
  if (atOnce === undefined) return
  if (act !== 'backfill') throw new OptionError('atOnce', `Only a backfill starts runs, and not a ${act}.`)
  if (!(Number.isSafeInteger(atOnce) && atOnce >= 1 && atOnce <= 1000))
    throw new OptionError('atOnce', `'atOnce' must be a whole number from 1 to 1000, got ${quoted(atOnce)}.`)
}

function checkOutside(set: OutsideSet): void {
  if ('collection' in set) {
    checkText('collection', set.collection)
    checkText('source', set.source)
    if (set.error !== undefined) checkText('error', set.error)
    checkTime('until', set.until)
  } else {
    checkText('queue', set.queue)
    checkText('bus', set.bus)
    for (const name of [set.route.queue, set.route.type]) if (name !== null) checkText('route', name)
  }
  checkCount('count', set.count)
}

function checkCount(option: string, count: number): void {
  if (!(Number.isSafeInteger(count) && count >= 0))
    throw new OptionError(option, `'${option}' must be a whole number, 0 or more, got ${quoted(count)}.`)
}

function checkFixedIn(act: OperationAct, set: OperationSet, fixedIn: FixedRelease | undefined): void {
  if (fixedIn === undefined) return
  for (const release of [fixedIn.release, ...fixedIn.before]) checkText('fixedIn', release)
  if (act !== 'redrive') throw new OptionError('fixedIn', `Only a redrive can wait for a fix, and not a ${act}.`)
  if (!('filter' in set) || set.filter.kind === undefined)
    throw new OptionError(
      'fixedIn',
      "A redrive that waits for a fix needs a filter with a 'kind': its workers have the fix.",
    )
}

/** Checks the patch of an operation. Anything but an object would replace each payload as a whole. */
export function checkPatch(act: OperationAct, patch: PayloadPatch | undefined): void {
  if (patch === undefined) return
  if (act !== 'redrive') throw new OptionError('patch', `Only a redrive can patch payloads, and not a ${act}.`)
  checkJsonObject('patch', patch, 'the fields to change')
}

function checkPositive(option: string, value: number | undefined): void {
  if (value === undefined || (Number.isFinite(value) && value > 0)) return
  throw new OptionError(option, `'${option}' must be a number above 0, got ${quoted(value)}.`)
}
