import { OptionError } from '../../../policy/index.js'
import { quoted } from '../../../policy/internal.js'
import type { By } from '../../contract/ledger.js'
import {
  type Chunk,
  type NewRun,
  type ReprocessFilter,
  type ReprocessOptions,
  RUN_STATUSES,
  type RunChange,
  type RunSettings,
  type RunStatus,
} from '../../contract/run-store.js'
import { checkBeat, checkBy, checkIds, checkName, checkNewTask, checkPage, checkPerson } from '../check.js'
import { itemKind } from './items.js'

/** Checks of the arguments of a run's verbs, which every store makes before it does anything. */

const RUN_ID = /^[A-Za-z0-9_.-]{1,100}$/

export function checkRunId(id: unknown): void {
  if (typeof id === 'string' && RUN_ID.test(id)) return
  throw new OptionError('id', `The id of a run must be 1 to 100 letters, digits and _.- but is ${quoted(id)}.`)
}

export function checkNewRun({ id, pipeline, version, stages, settings, reader, onEnd }: NewRun): void {
  checkRunId(id)
  checkPipeline(pipeline)
  checkName('version', version)
  checkStages(stages)
  checkSettings(settings)
  if (reader !== undefined) checkReader(reader.name, reader.leaseMs)
  if (onEnd !== undefined) checkOnEnd(onEnd)
}

export function checkReader(reader: string, leaseMs: number): void {
  checkName('reader', reader)
  checkBeat({ worker: reader, leaseMs })
}

export function checkChunk({ reader, leaseMs, position, items }: Chunk): void {
  checkReader(reader, leaseMs)
  if (!(Number.isSafeInteger(position) && position >= 0))
    throw new OptionError('position', `'position' must be a whole number, 0 or more, got ${quoted(position)}.`)
  if (!Array.isArray(items)) throw new OptionError('items', `'items' must be a list, got ${quoted(items)}.`)
}

export function checkRunChange(
  { isPaused, sourceError, stages, version, reader }: RunChange,
  by: By | undefined,
): void {
  checkBy(by)
  if (isPaused !== undefined && typeof isPaused !== 'boolean')
    throw new OptionError('isPaused', `'isPaused' must be true or false, got ${quoted(isPaused)}.`)
  if (sourceError !== undefined && typeof sourceError !== 'string')
    throw new OptionError('sourceError', `'sourceError' must be text, got ${quoted(sourceError)}.`)
  if (stages !== undefined) checkStages(stages)
  if (version !== undefined) checkName('version', version)
  if (reader !== undefined) checkName('reader', reader)
}

export function checkCancel(limit: number, by: By): void {
  checkPage({ limit })
  checkPerson(by)
}

export function checkWritten(ids: readonly string[], outputBytes: number): void {
  checkIds(ids)
  checkAmount('outputBytes', outputBytes, 0, Number.MAX_SAFE_INTEGER)
}

export function checkReprocess(filter: ReprocessFilter, { as, by, limit }: ReprocessOptions): void {
  checkCancel(limit, by)
  const { pipeline, run, stage, errorCode, diedUntil, ...others } = filter
  const [other] = Object.keys(others)
  if (other !== undefined) throw new OptionError(other, `There is no field ${quoted(other)} to reprocess by.`)
  checkPipeline(pipeline)
  if (run !== undefined) checkRunId(run)
  if (stage !== undefined) checkName('stage', stage)
  if (errorCode !== undefined && typeof errorCode !== 'string')
    throw new OptionError('errorCode', `'errorCode' must be text, got ${quoted(errorCode)}.`)
  if (diedUntil !== undefined) checkAmount('diedUntil', diedUntil, 0, Number.MAX_SAFE_INTEGER)
  if (as !== undefined) checkName('as', as)
  if (as !== undefined && stage === undefined)
    throw new OptionError('as', `'as' needs a 'stage': name the stage whose items move to ${quoted(as)}.`)
}

export function checkRunStatus(status: RunStatus | undefined): void {
  if (status === undefined || RUN_STATUSES.includes(status)) return
  throw new OptionError('status', `'status' must be one of ${RUN_STATUSES.join(', ')}, got ${quoted(status)}.`)
}

export function checkSettings(settings: RunSettings): void {
  const { failureBudget, stageBudgets, checkInterval, budgetWindow, completedFrom, partialFrom } = settings
  checkAmount('failureBudget', failureBudget, 0, 1)
  for (const [stage, budget] of Object.entries(stageBudgets)) checkAmount(`stageBudgets.${stage}`, budget, 0, 1)
  checkCount('checkInterval', checkInterval)
  if (budgetWindow !== undefined) checkCount('budgetWindow', budgetWindow)
  checkAmount('completedFrom', completedFrom, 0, 1)
  checkAmount('partialFrom', partialFrom, 0, 1)
  checkCount('maxUnfinished', settings.maxUnfinished)
  for (const [stage, count] of Object.entries(settings.concurrency)) checkCount(`concurrency.${stage}`, count)
}

function checkPipeline(pipeline: unknown): void {
  if (pipeline === '') throw new OptionError('pipeline', "'pipeline' must not be empty.")
  checkName('pipeline', pipeline)
  checkName('pipeline', itemKind(pipeline))
}

function checkStages(stages: readonly string[]): void {
  for (const stage of stages) checkName('stages', stage)
  if (stages.length === 0) throw new OptionError('stages', 'A pipeline needs at least one stage.')
  if (new Set(stages).size < stages.length)
    throw new OptionError('stages', `The names of stages must differ, got ${stages.map(quoted).join(', ')}.`)
}

/** The payload becomes part of another JSON text. */
function checkOnEnd(onEnd: NonNullable<NewRun['onEnd']>): void {
  checkNewTask(onEnd)
  try {
    JSON.parse(onEnd.payload)
  } catch {
    throw new OptionError('onEnd', `The payload of 'onEnd' must be JSON, got ${quoted(onEnd.payload)}.`)
  }
}

function checkAmount(option: string, value: unknown, min: number, max: number): void {
  if (typeof value === 'number' && value >= min && value <= max) return
  throw new OptionError(option, `'${option}' must be a number from ${min} to ${max}, got ${quoted(value)}.`)
}

function checkCount(option: string, value: unknown): void {
  if (Number.isSafeInteger(value) && Number(value) >= 1) return
  throw new OptionError(option, `'${option}' must be a whole number, 1 or more, got ${quoted(value)}.`)
}
