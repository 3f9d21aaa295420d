import type { LedgerRow, TaskStatus } from 'redrive/store'
import type { DeadGroup, Summary } from './ledger-summary.js'
import { bar, type Paint } from './terminal.js'

const BAR_WIDTH = 28

/** The meaning of each outcome in the ledger, in display order. */
const OUTCOMES: Readonly<Record<LedgerRow['outcome'], string>> = {
  succeeded: '',
  advanced: 'went on to its next stage',
  skipped: 'there was nothing to do',
  retry: 'failed, and tried again after a backoff',
  deferred: 'rate limited: waited as asked, at no cost of an attempt',
  later: 'asked to be called later',
  lost: 'its worker died',
  dead: 'failed for good',
  cancelled: '',
  redriven: 'no attempt: somebody gave it fresh ones',
  discarded: 'no attempt: somebody gave it up for good',
  completed: 'no attempt: somebody did its work by hand',
  failed: 'no attempt: somebody made a dead letter of it',
  undone: 'no attempt: somebody took a redrive back',
  edited: 'no attempt: somebody changed its payload',
  promoted: 'no attempt: somebody made it due',
  rescheduled: 'no attempt: somebody gave it another time',
  prioritized: 'no attempt: somebody gave it another priority',
  cancel_requested: 'no attempt: somebody asked to cancel it while it ran',
}

const STATUSES: Readonly<Record<TaskStatus, 'green' | 'red' | 'yellow'>> = {
  succeeded: 'green',
  skipped: 'yellow',
  dead: 'red',
  cancelled: 'yellow',
  running: 'yellow',
  waiting: 'yellow',
}

/** The whole report, as text. */
export function report(summary: Summary, path: string, paint: Paint): string {
  const groups = [...summary.dead.values()].sort((a, b) => b.count - a.count)
  const attempts = sum(summary.rows) - (summary.rows.get('redriven') ?? 0)
  const sections = [
    [`Where the tasks are`, ...statusTable(summary, paint)],
    [`The ledger: ${attempts} attempts`, ...outcomeTable(summary, paint)],
    [`How many retries the ended tasks needed`, ...retryTable(summary, paint)],
    [`Dead letters by error`, ...deadTable(groups, paint)],
    [`Try next`, ...tryNext(groups, path, paint)],
  ]
  return sections.map(([head = '', ...lines]) => `\n${[paint('bold', head), ...lines].join('\n')}\n`).join('')
}

function statusTable({ tasks }: Summary, paint: Paint): string[] {
  const most = Math.max(...tasks.values())
  const known = Object.keys(STATUSES) as TaskStatus[]
  const rows = known.flatMap(status => {
    const count = tasks.get(status)
    return count === undefined ? [] : [line(status, count, paint(STATUSES[status], bar(count / most, BAR_WIDTH)))]
  })
  return [...rows, paint('dim', line('in all', sum(tasks)))]
}

function outcomeTable({ rows }: Summary, paint: Paint): string[] {
  const known = Object.keys(OUTCOMES) as LedgerRow['outcome'][]
  return known.flatMap(outcome => {
    const count = rows.get(outcome)
    return count === undefined ? [] : [line(outcome, count, paint('dim', OUTCOMES[outcome]))]
  })
}

function retryTable({ retries }: Summary, paint: Paint): string[] {
  const most = Math.max(...retries.values())
  const rows = [...retries].sort(([a], [b]) => a - b)
  return rows.map(([needed, count]) => line(String(needed), count, paint('cyan', bar(count / most, BAR_WIDTH))))
}

function deadTable(groups: readonly DeadGroup[], paint: Paint): string[] {
  if (groups.length === 0) return ['  none']
  const format = (code: string, reason: string, count: string, example: string) =>
    `  ${code.padEnd(18)}${reason.padEnd(20)}${count.padStart(5)}  ${example}`
  return [
    paint('dim', format('error', 'reason', 'tasks', 'for example')),
    ...groups.map(({ code, reason, count, example }) => format(code, reason, String(count), example)),
  ]
}

function tryNext(groups: readonly DeadGroup[], path: string, paint: Paint): string[] {
  const outage = groups.find(({ code }) => code === 'http_502') ?? groups[0]
  const store = `--store sqlite:${path}`
  const commands = [
    ...(outage === undefined
      ? []
      : [
          ['all dead letters, newest first', `npx redrive dlq ls ${store}`],
          ['one of them, with its whole history', `npx redrive dlq show ${outage.example} ${store}`],
          [
            'the outage is over: fresh attempts for all of them',
            `npx redrive dlq redrive --code ${outage.code} ${store}`,
          ],
        ]),
    ['run what waits, and a new batch', 'npm start'],
    ['how it works', 'docs/tasks.md, examples/durable-task.ts'],
  ] as const
  return commands.flatMap(([what, command]) => [`  ${paint('dim', `${what}:`)}`, `    ${paint('cyan', command)}`])
}

function line(label: string, count: number, more = ''): string {
  return `  ${label.padEnd(12)}${String(count).padStart(6)}  ${more}`.trimEnd()
}

function sum(counts: ReadonlyMap<unknown, number>): number {
  return [...counts.values()].reduce((total, count) => total + count, 0)
}
