import { commandLine } from '../policy/internal.js'
import type { MissedSlots } from '../store/internal.js'
import type { Notice } from './notice.js'
import type { Occasion } from './occasion.js'

/** After an outage all schedules may miss slots at once: more of them are told in one message. */
const MAX_ALONE = 10
/** Schedules that a message about many names. */
const MAX_NAMED = 5
const MAX_SCHEDULES = 1000

/** Tells when slots of a schedule were missed, and are not caught up: once per schedule and finding. */
export const slotsMissed: Occasion = async ({ store, since }) => {
  const missed = (await store.schedules.missed(MAX_SCHEDULES)).filter(({ at }) => at >= since)
  const firings = new Map<number, MissedSlots[]>()
  for (const slots of missed) firings.set(slots.at, [...(firings.get(slots.at) ?? []), slots])
  // A firing is one transaction, so all processes find the same schedules in it.
  return [...firings.values()].flatMap(found =>
    found.length > MAX_ALONE ? [noticeOfMany(found)] : found.map(noticeOf),
  )
}

function noticeOf({ schedule, at, from, to, reason }: MissedSlots): Notice {
  const [first, last] = [timeText(from), timeText(to)]
  const which =
    from === to
      ? `The slot of ${schedule} at ${first} was missed`
      : `Slots of ${schedule} were missed, from ${first} to ${last}`
  return {
    type: 'slots_missed',
    subject: `${schedule}/${at}`,
    text: `${which}: ${reason}. To see them, run: ${commandLine('schedule show', {}, schedule)}`,
    facts: { schedule, from: new Date(from).toISOString(), to: new Date(to).toISOString(), reason },
  }
}

function noticeOfMany(found: readonly MissedSlots[]): Notice {
  const names = found.map(({ schedule }) => schedule).sort()
  const named = names.slice(0, MAX_NAMED).join(', ')
  const from = Math.min(...found.map(slots => slots.from))
  const to = Math.max(...found.map(slots => slots.to))
  return {
    type: 'slots_missed',
    subject: `many/${found[0]?.at}`,
    text: `${names.length} schedules missed slots from ${timeText(from)} to ${timeText(to)}: ${named}, …. To list them, run: ${commandLine('schedule ls')}`,
    facts: { schedules: names.length, from: new Date(from).toISOString(), to: new Date(to).toISOString() },
  }
}

function timeText(at: number): string {
  return `${new Date(at).toISOString().slice(0, 16).replace('T', ' ')} UTC`
}
