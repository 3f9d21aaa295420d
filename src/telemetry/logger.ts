import { formatDuration } from '../policy/index.js'
import { describeFailure, failureText } from './describe-failure.js'
import { label } from './redact.js'
import { redactContext } from './redact-context.js'
import type { Sink } from './sink.js'
import { type Line, sweepLine } from './sweep-lines.js'
import type {
  GateClosed,
  GateOpened,
  GaveUp,
  Overran,
  OverrunReason,
  RetryScheduled,
  SlotEnded,
  WorkEvent,
} from './work-events.js'

/** The methods that a logger needs. Those of pino and bunyan fit. */
export interface Logger {
  /** For normal progress. */
  debug(fields: object, message: string): void
  /** For retries, deferrals and timeouts. */
  info(fields: object, message: string): void
  /** For what may soon need attention. */
  warn(fields: object, message: string): void
  /** For work that was given up. */
  error(fields: object, message: string): void
}

/**
 * Creates a sink that logs work events. Retries and successes after a retry are logged at `info`, a retry whose next
 * attempt is the last at `warn`, giving up at `error`, and normal progress at `debug`. An abort is the caller's wish,
 * so `info`.
 *
 * ```ts
 * await retry(charge, { attempts: 3 }, { sink: logTo(pino()) })
 * ```
 */
export function logTo(logger: Logger): Sink {
  return function loggerSink(event) {
    const { level, message, fields } = lineOf(event)
    logger[level]({ ...about(event), ...fields }, message)
  }
}

function lineOf(event: WorkEvent): Line {
  // An event is identified by its key, which begins with the service's name.
  const name = `'${label(event.work.idempotencyKey ?? event.work.name)}'`
  switch (event.type) {
    case 'attempt_started': {
      const { attempt, maxAttempts, deferrals = 0 } = event
      const isRetry = attempt > 1 || deferrals > 0
      const number = maxAttempts === undefined ? `attempt ${attempt}` : `attempt ${attempt} of ${maxAttempts}`
      const message = `${isRetry ? 'Retry' : 'First attempt'} at ${name} starts (${number})`
      return { level: 'debug', message, fields: { attempt, maxAttempts, isRetry } }
    }
    case 'attempt_succeeded': {
      const { attempt, durationMs, totalMs } = event
      const total = totalMs === undefined || attempt === 1 ? '' : ` (${formatDuration(totalMs)} in all)`
      const message = `${name} succeeded at attempt ${attempt}, in ${formatDuration(durationMs)}${total}`
      const fields = { attempt, durationMs, ...(totalMs !== undefined && { totalMs }) }
      return { level: attempt > 1 ? 'info' : 'debug', message, fields }
    }
    case 'result_not_kept': {
      const { attempt, reason } = event
      const message = `The result of ${name} was not kept: ${label(reason)}`
      return { level: 'warn', message, fields: { attempt, reason } }
    }
    case 'skipped': {
      const { attempt, durationMs, reason } = event
      const message = `${name} was skipped at attempt ${attempt}: ${label(reason)}`
      return { level: 'debug', message, fields: { attempt, durationMs, reason } }
    }
    case 'lease_lost': {
      const { running } = event
      const message = `The worker ${name} lost its lease: others may take over the ${running} tasks that it is running`
      return { level: 'warn', message, fields: { running } }
    }
    case 'gate_opened': {
      const { taskKind, category, until, holds, code, group, attempts, failed } = event
      const counts = `${failed} of ${attempts} attempts failed, mostly with ${label(code)}`
      const message = `No task of ${scopeText(event)} starts until ${iso(until)}: ${counts}`
      return {
        level: 'error',
        message,
        fields: { taskKind, category, until: iso(until), holds, code, group, attempts, failed },
      }
    }
    case 'gate_closed': {
      const { taskKind, category } = event
      return {
        level: 'info',
        message: `Tasks of ${scopeText(event)} start normally again`,
        fields: { taskKind, category },
      }
    }
    case 'slot_ended':
      return slotLine(event, name)
    case 'run_started': {
      const message = `The run '${label(event.work.id)}' of ${name} ${event.isResumed ? 'goes on' : 'starts'}`
      return { level: 'info', message, fields: { isResumed: event.isResumed } }
    }
    case 'run_ended': {
      const { status, counts, durationMs } = event
      const message = `The run '${label(event.work.id)}' of ${name} is ${status}, after ${formatDuration(durationMs)}`
      return { level: 'info', message, fields: { status, counts, durationMs } }
    }
    case 'timed_out': {
      const { attempt, timeoutMs } = event
      const message = `Attempt ${attempt} at ${name} timed out after ${formatDuration(timeoutMs)}`
      return { level: 'info', message, fields: { attempt, timeoutMs } }
    }
    case 'overrun_began':
    case 'overrun_ended':
    case 'abandoned':
      return overrunLine(event, name)
    case 'retry_scheduled':
    case 'deferred':
      return retryLine(event, name)
    case 'gave_up':
      return endLine(event, name)
    case 'idempotency_hit': {
      const message = `${name} has already run under its idempotency key: its stored result is used`
      return { level: 'info', message, fields: { idempotencyKey: event.key } }
    }
    case 'idempotency_recorded': {
      const message = `The result of ${name} is on record under its idempotency key`
      return { level: 'debug', message, fields: { idempotencyKey: event.key } }
    }
    case 'idempotency_not_recorded': {
      const message = `${name} succeeded, but its idempotency key could not be recorded: ${failureText(event.failure)}`
      return { level: 'warn', message, fields: { idempotencyKey: event.key, error: describeFailure(event.failure) } }
    }
    case 'swept':
    case 'superseded':
    case 'collection_swept':
    case 'sweep_ended':
    case 'coverage_checked':
      return sweepLine(event)
  }
}

function scopeText({ taskKind, category }: GateOpened | GateClosed): string {
  return `'${label(taskKind)}'${category === undefined ? '' : ` in '${label(category)}'`}`
}

const SLOT_ENDS: Readonly<Record<SlotEnded['end'], string>> = {
  ran: 'ran',
  skipped: 'was skipped',
  missed: 'was missed',
  overlapped: 'did not run beside an earlier one',
}

function slotLine({ slot, until, end, reason }: SlotEnded, name: string): Line {
  const why = reason === undefined ? '' : `: ${label(reason)}`
  const message = `The slot ${iso(slot)} of the schedule ${name} ${SLOT_ENDS[end]}${why}`
  const fields = { slot: iso(slot), ...(until !== undefined && { until: iso(until) }), end, reason }
  return { level: end === 'missed' ? 'warn' : end === 'ran' ? 'debug' : 'info', message, fields }
}

const WHY_ENDED: Readonly<Record<OverrunReason, string>> = {
  timeout: 'timed out',
  cancelled: 'was cancelled',
  lease_lost: 'lost its lease',
}

function overrunLine({ type, attempt, reason, durationMs }: Overran, name: string): Line {
  const subject = `The handler of ${name}, whose attempt ${attempt} ${WHY_ENDED[reason]},`
  const fields = { attempt, reason, durationMs }
  const after = `${formatDuration(durationMs)} after its signal aborted`
  switch (type) {
    case 'overrun_began':
      return { level: 'warn', message: `${subject} is still running ${after}, and keeps its slot`, fields }
    case 'overrun_ended':
      return { level: 'info', message: `${subject} ended ${after}`, fields }
    case 'abandoned':
      return { level: 'error', message: `${subject} is still running ${after}. Its slot is freed without it`, fields }
  }
}

function retryLine(event: RetryScheduled, name: string): Line {
  const { type, attempt, maxAttempts, delayMs } = event
  const nextAttemptAt = iso(event.nextAttemptAt)
  // Neither a deferral nor a loss costs an attempt: the next run has the same number.
  const isUncounted = type === 'deferred' || isLoss(event)
  const isLastNext = (isUncounted ? attempt : attempt + 1) >= maxAttempts
  const how = type === 'deferred' ? 'Deferred, without costing an attempt: again' : 'It runs again, at no cost,'
  const next = isUncounted ? how : isLastNext ? 'Last attempt' : 'Retry'
  return {
    level: isLastNext ? 'warn' : 'info',
    message: `${failed(event, name)}. ${next} in ${formatDuration(delayMs)}, at ${nextAttemptAt}`,
    fields: { ...failureFields(event), delayMs, nextAttemptAt },
  }
}

function endLine(event: GaveUp, name: string): Line {
  const { attempt, maxAttempts, reason } = event
  const fields = { ...failureFields(event), reason }
  const when = attempt === 0 ? 'before its first attempt' : `after attempt ${attempt} of ${maxAttempts} began`
  if (reason === 'aborted') {
    return { level: 'info', message: `${name} was aborted ${when}`, fields }
  }
  if (reason === 'breaker_open') {
    return { level: 'error', message: `Gave up on ${name} ${when} (${reason}): ${failureText(event.failure)}`, fields }
  }
  return { level: 'error', message: `Gave up on ${name} (${reason}). ${failed(event, name)}`, fields }
}

/** The failure, without the full stop that its message may end with. */
function failed(event: RetryScheduled | GaveUp, name: string): string {
  const { attempt, maxAttempts, failure } = event
  const number = `ttempt ${attempt} of ${maxAttempts} at ${name}`
  if (isLoss(event)) return `The worker died during a${number}`
  return `A${number} failed: ${failureText(failure).replace(/\.$/, '')}`
}

function isLoss({ verdict }: RetryScheduled | GaveUp): boolean {
  return verdict.code === 'lost'
}

function failureFields({ attempt, maxAttempts, durationMs, failure, verdict }: RetryScheduled | GaveUp): object {
  return { attempt, maxAttempts, durationMs, error: describeFailure(failure), verdict }
}

/** Avoids the names that pino and bunyan write themselves (`name`, `time`, `msg`…), and leaves out absent fields. */
function about({ type, at, work }: WorkEvent): object {
  return {
    event: type,
    at: iso(at),
    workKind: work.kind,
    workId: work.id,
    operation: work.name,
    ...(work.category !== undefined && { category: work.category }),
    ...(work.run !== undefined && { pipeline: work.pipeline, run: work.run, stage: work.stage }),
    ...(work.tenantId !== undefined && { tenantId: work.tenantId }),
    ...(work.correlationId !== undefined && { correlationId: work.correlationId }),
    ...(work.traceId !== undefined && { traceId: work.traceId }),
    ...(work.idempotencyKey !== undefined && { idempotencyKey: work.idempotencyKey }),
    ...(work.context !== undefined && { context: redactContext(work.context) }),
  }
}

function iso(at: number): string {
  return new Date(at).toISOString()
}
