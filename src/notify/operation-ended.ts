import { commandLine } from '../policy/internal.js'

import { isLasting, MOVED, type OperationRecord, type OperationStore } from '../store/internal.js'
import { redact } from '../telemetry/index.js'
import type { Notice } from './notice.js'
import type { Occasion } from './occasion.js'

/** The newest operations are looked at each time; older ones from when they were seen to be open. */
const NEWEST = 100
/** The first look of a process does not know which were open. */
const FIRST_LOOK = 1000

/** Tells when an operation is done, and when it has stopped before that. */
export function operationEnded(): Occasion {
  let open: ReadonlySet<string> | undefined
  return async ({ store: { operations }, since }) => {
    const { items } = await operations.list({}, { limit: open === undefined ? FIRST_LOOK : NEWEST })
    const listed = new Set(items.map(({ id }) => id))
    const older = await Promise.all([...(open ?? [])].filter(id => !listed.has(id)).map(id => operations.get(id)))
    const found = [...items, ...older.flatMap(operation => operation ?? [])]
    open = await openIds(operations)
    return found
      .filter(({ status, changedAt }) => (status === 'done' || status === 'stopped') && changedAt >= since)
      .map(noticeOf)
  }
}

async function openIds(operations: OperationStore): Promise<Set<string>> {
  const ids = new Set<string>()
  let after: string | undefined
  do {
    const { items, next } = await operations.list(
      { isOpen: true },
      { limit: NEWEST, ...(after !== undefined && { after }) },
    )
    for (const { id } of items) ids.add(id)
    after = next
  } while (after !== undefined)
  return ids
}

function noticeOf({ id, act, settings, by, status, reason, moved, undone, tally }: OperationRecord): Notice {
  const name = settings.patch === undefined ? act : 'edit'
  const isRedrive = act === 'redrive'
  const { succeeded, skipped, dead, cancelled } = tally
  const ends = { 'put back': undone, ...(isRedrive && { succeeded, skipped, cancelled, 'dead again': dead }) }
  const counts = Object.entries({ [MOVED[act]]: moved, ...ends }).filter(
    ([name, count]) => count > 0 || name === MOVED[act],
  )
  const outcome = counts.map(([name, count]) => `${count} ${name}`).join(', ')
  const ended = status === 'done' ? 'is done' : `has stopped${reason === undefined ? '' : ` (${reason})`}`
  return {
    type: 'operation_ended',
    // An operation that goes on after a stop may stop again, for another reason.
    subject: status === 'done' ? `${id}/done` : `${id}/stopped/${moved}/${reason ?? ''}`,
    text: `${redact(`The ${name} ${id} by ${by.who} ${ended}: ${outcome}.`)} To see it, run: ${commandLine('ops show', {}, id)}`,
    facts: {
      operation: id,
      act,
      // An edit is a redrive with a patch.
      ...(isRedrive && { patch: settings.patch !== undefined }),
      who: by.who,
      status,
      reason: reason ?? null,
      moved,
      // Only acts that can be undone have the one, and only a redrive has the others.
      ...(!isLasting(act) && { undone }),
      ...(isRedrive && tally),
    },
  }
}
