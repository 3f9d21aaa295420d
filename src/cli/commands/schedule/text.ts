import type { ChangeDay } from '../../../calendar/internal.js'
import type { BackfillPlan, ScheduleView, SlotView } from '../../../operate/index.js'
import { formatDuration } from '../../../policy/index.js'
import type { Console } from '../../terminal/console.js'
import { type Layout, NAME_WIDTH, paragraph, table } from '../../terminal/table.js'
import { moment, relative, timestamp } from '../../terminal/times.js'
import { visible } from '../../terminal/visible.js'

const COLUMNS = [
  { title: 'NAME', minWidth: NAME_WIDTH, isName: true },
  { title: 'STATE' },
  { title: 'WHEN', minWidth: NAME_WIDTH },
  { title: 'NEXT' },
  { title: 'TASK', minWidth: NAME_WIDTH, isMinor: true },
]

/** Schedules as a table, with the reason for a pause on a line of its own. */
export function scheduleTable(
  schedules: readonly ScheduleView[],
  { width, paint }: Console,
  now: number,
  layout: Layout,
): string {
  const rows = schedules.map(schedule => ({
    cells: [schedule.name, schedule.state, whenText(schedule), nextText(schedule, now), schedule.task.kind],
    paints: [undefined, schedule.state === 'on' ? undefined : paint.yellow],
    details: notesOf(schedule, now).flatMap(text => paragraph(text, { width, indent: '  ' })),
  }))
  return table(COLUMNS, rows, { width, paint, layout })
}

/** A schedule with its next slots and the ends of its last ones. */
export function scheduleText(schedule: ScheduleView & { readonly slots: readonly SlotView[] }, now: number): string {
  const { name, state, task, catchUp, overlap, generation, declared, next, slots } = schedule
  const source =
    declared === null
      ? 'set at run time'
      : `declared by ${declared.release === null ? 'code' : `release ${declared.release}`}`
  const facts = [
    `${name}: ${state}`,
    `  when      ${whenText(schedule)}`,
    `  task      ${task.kind} ${task.payload}`,
    `  rules     catch up: ${catchUp}, overlap: ${overlap}`,
    `  source    ${source}${declared === null ? '' : ` at ${timestamp(declared.at)}`}, generation ${generation}`,
    ...next.map(({ at, local }, n) => `  ${n === 0 ? 'next' : '    '}      ${localText(local)} (${relative(at, now)})`),
    ...notesOf(schedule, now).map(text => `  ${text}`),
  ]
  if (slots.length === 0) return [...facts, '  no slot has ended yet'].map(visible).join('\n')
  const odd = slots.filter(({ reason }) => reason !== null)
  return [
    ...facts,
    `  last      ${slots.map(({ end }) => MARKS[end]).join('')}`,
    ...odd.map(
      ({ local, until, end, reason }) =>
        `    ${localText(local)}${until === null ? '' : ' and later'} ${end}: ${reason}`,
    ),
  ]
    .map(visible)
    .join('\n')
}

const MARKS: Readonly<Record<SlotView['end'], string>> = { ran: '|', skipped: '.', missed: '!', overlapped: 'x' }

/** The days on which the clocks of a zone change, each with what happens. */
export function proofText(days: readonly ChangeDay[], timeZone: string, year: number): string {
  if (days.length === 0) return `The clocks of ${timeZone} do not change in ${year}.`
  return days
    .map(({ day, forwardMs, shown, slots }) => {
      const by = `${forwardMs > 0 ? 'forward' : 'back'} by ${formatDuration(Math.abs(forwardMs))}`
      const [before, after] = [shown.before, shown.after].map(text => text.slice(11, 16))
      const runs = slots.map(({ at, local }) => `  runs for ${localText(local)}, at ${timestamp(at)}`)
      return [`${day}: ${before} becomes ${after}, ${by}`, ...(runs.length === 0 ? ['  no run'] : runs)].join('\n')
    })
    .join('\n')
}

/** The plan of a backfill. */
export function backfillText({ slots, haveRun }: BackfillPlan): string {
  const lines = slots.map(({ local, end, reason }) => `  ${localText(local)} ${end}: ${reason}`)
  const count = slots.length === 1 ? '1 slot' : `${slots.length} slots`
  return [`${count} would run, ${haveRun} had run before.`, ...lines].map(visible).join('\n')
}

function whenText({ times, timeZone }: ScheduleView): string {
  return 'cron' in times ? `${times.cron} ${timeZone}` : `every ${formatDuration(times.everyMs)}`
}

function nextText({ next: [first] }: ScheduleView, now: number): string {
  return first === undefined ? '-' : `${localText(first.local)} (${relative(first.at, now)})`
}

function notesOf({ paused, waiting, problem }: ScheduleView, now: number): string[] {
  return [
    ...(paused === null
      ? []
      : [`paused by ${paused.who} since ${moment(paused.at, now)}${paused.why === null ? '' : `: ${paused.why}`}`]),
    ...(waiting === null ? [] : [`the slot ${waiting} waits for an earlier run to end`]),
    ...(problem === null ? [] : [`cannot be fired: ${problem}`]),
  ]
}

function localText(local: string): string {
  return local.replace('T', ' ').replace(/:00$/, '')
}
