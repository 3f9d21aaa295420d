import type { RunView } from '../../../operate/index.js'
import type { Rate } from '../../../store/internal.js'
import { suggest } from '../../suggest.js'
import { grouped, percent } from '../../terminal/chart.js'
import type { Console } from '../../terminal/console.js'
import { fields, NAME_WIDTH, paragraph, table } from '../../terminal/table.js'
import { bucketTexts } from '../lane/text.js'
import type { RunNotes } from './run-notes.js'
import { type ListedRun, runHead } from './run-text.js'

const STATES = ['waiting', 'running', 'succeeded', 'skipped', 'dead', 'cancelled'] as const

/** Rates by stage and bucket. */
type RunRates = Readonly<Record<string, Readonly<Record<string, Rate>>>>

/** A run for people: its figures, its items by stage, its settings, and what to do next. */
export function runText(
  run: ListedRun,
  { notes, rates }: { readonly notes: RunNotes; readonly rates: RunRates },
  console: Console,
  now: number,
): string {
  const { paint, width } = console
  const advice = adviceFor(run)
  return [
    runHead(run, console, now),
    '',
    paint.bold('Stages'),
    stageTable(run, console),
    ...withoutCode(run).flatMap(({ text, command }) => [
      ...paragraph(text, { width, indent: '  ' }),
      `    ${paint.cyan(command)}`,
    ]),
    '',
    paint.bold('Settings'),
    fields(settingsOf(run, notes, rates), console),
    ...(advice.length === 0 ? [] : ['', paint.bold('What to do next')]),
    // Never wrapped, so that they can be copied.
    ...advice.map(command => `    ${paint.cyan(command)}`),
  ].join('\n')
}

function stageTable({ byStage }: RunView, { width, paint }: Console): string {
  // A state that no item is in would only make the table wider.
  const states = STATES.filter(state => byStage.some(({ counts }) => counts[state] > 0))
  const columns = [{ title: 'STAGE', minWidth: NAME_WIDTH }, ...states.map(state => ({ title: state.toUpperCase() }))]
  const rows = byStage.map(({ stage, counts }) => ({
    cells: [stage, ...states.map(state => grouped(counts[state]))],
    paints: [undefined, ...states.map(state => (state === 'dead' && counts.dead > 0 ? paint.red : undefined))],
  }))
  return table(columns, rows, { width, paint })
}

/** Items at a stage that the code no longer has would wait for ever. */
function withoutCode({ id, byStage, stages }: RunView): { readonly text: string; readonly command: string }[] {
  return byStage
    .filter(({ stage, counts }) => !stages.includes(stage) && counts.waiting + counts.dead > 0)
    .map(({ stage, counts }) => {
      const items = `${grouped(counts.waiting)} waiting and ${grouped(counts.dead)} dead items`
      const text = `The pipeline has no stage '${stage}' any more, and ${items} are there. Move them:`
      return { text, command: suggest('pipeline reprocess', { '--stage': stage, '--as': 'STAGE' }, id) }
    })
}

function settingsOf({ settings }: RunView, notes: RunNotes, rates: RunRates): [string, string | undefined][] {
  const { failureBudget, stageBudgets, checkInterval, budgetWindow, completedFrom, partialFrom } = settings
  const window = budgetWindow === undefined ? '' : `, over the last ${grouped(budgetWindow)}`
  const budgets = Object.entries(stageBudgets).map(([stage, budget]) => `${stage} ${percent(budget)}`)
  const concurrency = Object.entries(settings.concurrency).map(([stage, count]) => `${stage} ${count}`)
  const inForce = Object.entries(rates).map(([stage, buckets]) => `${stage} ${bucketTexts(buckets).join(', ')}`)
  return [
    ['failure budget', `${percent(failureBudget)}, checked every ${grouped(checkInterval)} items${window}`],
    ['stage budgets', budgets.length === 0 ? undefined : budgets.join(', ')],
    ['completed from', `${percent(completedFrom)} success; partial success from ${percent(partialFrom)}`],
    ['unfinished items', `at most ${grouped(settings.maxUnfinished)}`],
    ['concurrency', concurrency.length === 0 ? undefined : concurrency.join(', ')],
    ['rates', inForce.length === 0 ? undefined : inForce.join('; ')],
    ['input', notes.input],
    [
      'output',
      notes.output && `${notes.output}${notes.isUnordered ? ', as results come' : ', in the order of the input'}`,
    ],
    [
      'trial',
      notes.trial && `${grouped(notes.trial.lines.length)} random lines first, of ${grouped(notes.trial.total)}`,
    ],
  ]
}

/** `continue` leaves the items to the workers. Only `resume`, which runs code of the user's here, reads a source. */
function adviceFor({ id, status, counts, isUnattended, isRead, reader }: ListedRun): string[] {
  const dead =
    counts.dead === 0
      ? []
      : [suggest('pipeline report', {}, id), suggest('pipeline reprocess', { '--dry-run': true }, id)]
  const readOn = suggest('pipeline resume', {}, id, 'FILE')
  const goOn = [suggest('pipeline continue', {}, id), ...(isRead || reader !== null ? [] : [readOn])]
  switch (status) {
    case 'stopped':
      return [...dead, ...goOn]
    case 'paused':
      return goOn
    case 'interrupted':
      return [readOn]
    case 'running':
      return isUnattended ? [suggest('worker', {}, 'FILE'), ...dead] : dead
    case 'cancelled':
    case 'completed':
    case 'partial_success':
    case 'failed':
      return dead
  }
}
