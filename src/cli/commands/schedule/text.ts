import type { ChangeDay } from '../../../calendar/internal.js'
import type { BackfillPlan, SchedulePlan, ScheduleView, SlotView } from '../../../operate/index.js'
import { formatDuration } from '../../../policy/index.js'
import type { Console } from '../../terminal/console.js'
import { type Layout, NAME_WIDTH, paragraph, table } from '../../terminal/table.js'
import { moment, relative, timestamp } from '../../terminal/times.js'
import { quoted, visible } from '../../terminal/visible.js'
import type { InWords } from './in-words.js'

const COLUMNS = [
  { title: 'NAME', minWidth: NAME_WIDTH, isName: true },
  { title: 'STATE' },
  { title: 'WHEN', minWidth: NAME_WIDTH, isName: true },
  { title: 'NEXT' },
  { title: 'TASK', minWidth: NAME_WIDTH, isMinor: true },
]

/** Schedules as a table, each with its times in words and what there is to note below it. */
export function scheduleTable(
  schedules: readonly ScheduleView[],
  { width, paint }: Console,
  now: number,
  layout: Layout,
  inWords: InWords,
): string {
  const rows = schedules.map(schedule => ({
    cells: [schedule.name, schedule.state, whenText(schedule), nextText(schedule, now), schedule.task.kind],
    paints: [undefined, schedule.state === 'on' ? undefined : paint.yellow],
    details: [inWords(schedule) ?? [], ...notesOf(schedule, now)]
      .flat()
      .flatMap(text => paragraph(text, { width, indent: '  ' })),
  }))
  return table(COLUMNS, rows, { width, paint, layout })
}

/** The column of the facts of a schedule. */
const INDENT = '            '

/** A schedule with its next slots and the ends of its last ones. */
export function scheduleText(
  schedule: ScheduleView & { readonly slots: readonly SlotView[] },
  { width }: Pick<Console, 'width'>,
  now: number,
  inWords: InWords,
): string {
  const { name, state, task, catchUp, overlap, generation, declared, next, slots } = schedule
  const source =
    declared === null
      ? 'set at run time'
      : `declared by ${declared.release === null ? 'code' : `release ${declared.release}`}`
  const facts = [
    `${name}: ${state}`,
    ...timesText(schedule, width, inWords),
    `  task      ${task.kind}`,
    ...(task.payload === 'null' ? [] : [`  payload   ${task.payload}`]),
    `  rules     catch up: ${catchUp}, overlap: ${overlap}`,
    `  source    ${source}${declared === null ? '' : ` at ${timestamp(declared.at)}`}, generation ${generation}`,
    ...nextLines(next, now),
    ...notesOf(schedule, now).flatMap(text => paragraph(text, { width, indent: '  ' })),
  ]
  if (slots.length === 0) return [...facts, '  no slot has ended yet'].map(visible).join('\n')
  const marks = slots.map(({ end }) => MARKS[end]).join('')
  return [
    ...facts.map(visible),
    ...paragraph(marks, { width, indent: INDENT }).map((line, n) => (n === 0 ? `  last${line.slice(6)}` : line)),
    `${INDENT}${legend(slots)}`,
    ...reasons(slots).flatMap(text =>
      paragraph(text, { width: width - 2, indent: '    ' }).map((line, n) => (n === 0 ? line : `  ${line}`)),
    ),
  ].join('\n')
}

/** The slots that have a reason. Those in a row with the same end and the same reason are said once. */
function reasons(slots: readonly SlotView[]): string[] {
  const groups: [SlotView, ...SlotView[]][] = []
  for (const slot of slots) {
    const last = groups.at(-1)
    if (last?.[0].end === slot.end && last[0].reason === slot.reason) last.push(slot)
    else groups.push([slot])
  }
  return groups.flatMap(group => {
    const { local, until, end, reason } = group[0]
    if (reason === null) return []
    const last = until === null ? group.at(-1)?.local : until.slice(0, 19)
    const span = last === undefined || last === local ? '' : ` to ${localText(last)}`
    const count = group.length === 1 ? '' : ` (${group.length} slots)`
    return [`${localText(local)}${span} ${end}${count}: ${reason}`]
  })
}

/** The meaning of the marks of these slots: `| ran, x overlapped` */
function legend(slots: readonly SlotView[]): string {
  const ends = [...new Set(slots.map(({ end }) => end))]
  return ends.map(end => `${MARKS[end]} ${end}`).join(', ')
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

/** A plan shows so many slots, and counts the others. */
const SHOWN_SLOTS = 50

/** The plan of a backfill. */
export function backfillText({ slots, haveRun }: BackfillPlan): string {
  const lines = slots.slice(0, SHOWN_SLOTS).map(({ local, end, reason }) => `  ${localText(local)} ${end}: ${reason}`)
  if (slots.length > SHOWN_SLOTS) lines.push(`  … and ${slots.length - SHOWN_SLOTS} more`)
  const count = slots.length === 1 ? '1 slot' : `${slots.length} slots`
  return [`${count} would run, ${haveRun} had run before.`, ...lines].map(visible).join('\n')
}

const EFFECTS: Readonly<Record<SchedulePlan['effect'], readonly [would: string, did: string]>> = {
  create: ['would be created', 'was created'],
  begin_anew: ['would begin anew, and runs that have not begun would be skipped', 'begins anew'],
  change: ['would be changed', 'was changed'],
  none: ['would stay as it is', 'is as it was'],
}

/** The effect that setting a schedule would have, and its next slots then. */
export function planText(
  { name, effect, next, isPaused }: SchedulePlan,
  spec: Pick<ScheduleView, 'times' | 'timeZone'>,
  { width }: Pick<Console, 'width'>,
  now: number,
  inWords: InWords,
): string {
  const [would] = EFFECTS[effect]
  const lines = [
    ...paragraph(`${name}: it ${would}`, { width, indent: '' }),
    ...timesText(spec, width, inWords),
    ...nextLines(next, now),
    ...(isPaused ? ['  It is paused, and stays so.'] : []),
  ]
  return lines.map(visible).join('\n')
}

/** The effect of setting a schedule, and its next slot. */
export function setText({ name, effect, next: [first], isPaused }: SchedulePlan, now: number): string {
  const [, did] = EFFECTS[effect]
  const what = `The schedule ${quoted(name)} ${did}.`
  if (isPaused) return `${what} It is paused, and stays so.`
  return first === undefined ? what : `${what} Next: ${localText(first.local)} (${relative(first.at, now)}).`
}

/** When a schedule is due: as it was written, and in words below. */
function timesText(schedule: Pick<ScheduleView, 'times' | 'timeZone'>, width: number, inWords: InWords): string[] {
  const words = inWords(schedule)
  return [
    `  when      ${whenText(schedule)}`,
    ...(words === undefined ? [] : paragraph(words, { width, indent: INDENT })),
  ]
}

function nextLines(next: ScheduleView['next'], now: number): string[] {
  return next.map(
    ({ at, local }, n) => `  ${n === 0 ? 'next' : '    '}      ${localText(local)} (${relative(at, now)})`,
  )
}

function whenText({ times, timeZone }: Pick<ScheduleView, 'times' | 'timeZone'>): string {
  return 'cron' in times ? `${times.cron} ${timeZone}` : `every ${formatDuration(times.everyMs)}`
}

function nextText({ next: [first] }: ScheduleView, now: number): string {
  return first === undefined ? '-' : `${localText(first.local)} (${relative(first.at, now)})`
}

function notesOf({ paused, waiting, problem, declared, workers, task }: ScheduleView, now: number): string[] {
  const release = declared?.release === null ? '' : ` (release ${declared?.release})`
  return [
    ...(paused === null
      ? []
      : [`paused by ${paused.who} since ${moment(paused.at, now)}${paused.why === null ? '' : `: ${paused.why}`}`]),
    ...(waiting === null
      ? []
      : [`the slot for ${localText(waiting.local)} waits until ${waiting.behind ?? 'an earlier run'} has ended`]),
    ...(problem === null ? [] : [`cannot be fired since ${timestamp(problem.since)}: ${problem.why}`]),
    ...(declared === null || declared.isLive
      ? []
      : [`no live worker declares it; one did at ${timestamp(declared.at)}${release}`]),
    ...(workers > 0 ? [] : [`no live worker runs '${task.kind}', so its runs wait`]),
  ]
}

function localText(local: string): string {
  return local.replace('T', ' ').replace(/:00$/, '')
}
