import { formatDuration } from '../policy/index.js'
import { describeFailure, failureText } from './describe-failure.js'
import type { Logger } from './logger.js'
import { label } from './redact.js'
import type { CollectionSwept, CoverageChecked, SweepEnded, SweepEvent } from './work-events.js'

/** A line of the log. */
export interface Line {
  readonly level: keyof Logger
  readonly message: string
  /** The facts of the message, as structured fields. */
  readonly fields?: object
}

/** How the log tells of a sweep over documents. */
export function sweepLine(event: SweepEvent): Line {
  switch (event.type) {
    case 'swept': {
      const { work, attempt, maxAttempts } = event
      const message = `'${label(work.id)}' was requeued for attempt ${attempt} of ${maxAttempts}`
      return { level: 'debug', message, fields: { attempt, maxAttempts } }
    }
    case 'superseded':
      return { level: 'info', message: `An event for '${label(event.work.id)}' was superseded and is ignored` }
    case 'collection_swept':
      return collectionLine(event)
    case 'sweep_ended':
      return endLine(event)
    case 'coverage_checked':
      return coverageLine(event)
  }
}

function collectionLine({ report, isDryRun }: CollectionSwept): Line {
  const { failure, publishError, documentError, tooMany, ...counts } = report
  const name = `'${label(report.collection)}'`
  const fields = { ...counts, isDryRun, ...(tooMany && { total: tooMany.total }) }
  if (failure !== undefined) {
    const message = `The sweep of ${name} failed: ${failureText(failure)}`
    return { level: 'error', message, fields: { ...fields, error: describeFailure(failure) } }
  }
  const stuck = `${report.stuck} stuck in ${name}`
  if (report.postponed !== undefined)
    return { level: 'warn', message: `${stuck}, and left alone: ${POSTPONED[report.postponed]}`, fields }
  const { requeued, skipped, exhausted, publishErrors, documentErrors, unstarted } = report
  const done = `${stuck}: ${requeued} requeued, ${skipped} in backoff, ${exhausted} marked as failed`
  const reason = (error: unknown) => (error === undefined ? '' : ` (${failureText(error)})`)
  const errors = `${publishErrors} not published${reason(publishError)}, ${documentErrors} unusable${reason(documentError)}, ${unstarted} never started`
  const held = tooMany === undefined ? '' : `. That is too many of ${tooMany.total}${HELD[String(tooMany.isHeldBack)]}`
  const isTrouble = publishErrors + documentErrors + unstarted > 0
  const level = isTrouble || tooMany !== undefined ? 'warn' : requeued + exhausted > 0 ? 'info' : 'debug'
  return { level, message: `${done}${isTrouble ? `, ${errors}` : ''}${held}`, fields }
}

const POSTPONED = { lane: 'its lane is held or paused', unhealthy: 'its services are not healthy' } as const
const HELD: Readonly<Record<string, string>> = {
  true: ': the rest waits for a confirmation',
  false: '',
}

function endLine({ durationMs, failure, isDryRun }: SweepEnded): Line {
  const fields = { durationMs, isDryRun }
  if (failure === undefined) return { level: 'debug', message: `The sweep took ${formatDuration(durationMs)}`, fields }
  const message = `The sweep failed: ${failureText(failure)}`
  return { level: 'error', message, fields: { ...fields, error: describeFailure(failure) } }
}

function coverageLine({ from, unless, missing, reopened, failure }: CoverageChecked): Line {
  const fields = { from, unless, missing, reopened }
  const names = `'${label(unless)}' of '${label(from)}'`
  if (failure !== undefined) {
    const message = `The missing ${names} could not be found: ${failureText(failure)}`
    return { level: 'error', message, fields: { ...fields, error: describeFailure(failure) } }
  }
  const message = `${missing} ${names} are missing, ${reopened} opened again`
  return { level: missing > 0 ? 'warn' : 'debug', message, fields }
}
