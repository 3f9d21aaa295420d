import type { OperationRecord } from '../store/index.js'
import { redact } from '../telemetry/index.js'
import type { Notice } from './notice.js'
import type { Occasion } from './occasion.js'

/** As many of the newest operations are looked at. */
const MAX_OPERATIONS = 100

/** Tells when an operation is done, and when it has stopped before that. */
export const operationEnded: Occasion = async ({ store, since }) => {
  const { items } = await store.operations.list({}, { limit: MAX_OPERATIONS })
  return items
    .filter(({ status, changedAt }) => (status === 'done' || status === 'stopped') && changedAt >= since)
    .map(noticeOf)
}

function noticeOf({ id, act, by, status, reason, moved, tally }: OperationRecord): Notice {
  const { succeeded, skipped, dead, cancelled } = tally
  const ends = Object.entries({ succeeded, skipped, 'dead again': dead, cancelled }).filter(([, count]) => count > 0)
  const outcome = ends.map(([name, count]) => `${count} ${name}`).join(', ')
  const ended = status === 'done' ? 'is done' : `has stopped${reason === undefined ? '' : ` (${reason})`}`
  return {
    type: 'operation_ended',
    // An operation that goes on after a stop may stop again.
    subject: status === 'done' ? `${id}/done` : `${id}/stopped/${moved}`,
    text: redact(`The ${act} ${id} by ${by.who} ${ended}: ${moved} moved${outcome === '' ? '' : `: ${outcome}`}.`),
    facts: { operation: id, act, who: by.who, status, reason: reason ?? null, moved, ...tally },
  }
}
