import { type AttemptRecord, RetryExhaustedError } from 'redrive'
import { formatDuration } from 'redrive/policy'
import { bar, type Paint, wrap } from '../demo/terminal.js'
import type { Tally } from './tally.js'

/** The run to report on. */
export interface Run {
  readonly tally: Tally
  readonly total: number
  /** As the server counted them. */
  readonly requests: number
  readonly durationMs: number
  readonly results: readonly PromiseSettledResult<void>[]
}

const BAR_WIDTH = 24

/** The whole report, as text. */
export function report(run: Run, paint: Paint): string {
  const { tally, total, requests, durationMs } = run
  const ended = tally.count('succeeded') + tally.count('gave_up')
  const calls = ended === total ? `${total} calls` : `${ended} of ${total} calls`
  const heading = (text: string) => paint('bold', text)
  const sections = [
    [heading(`${calls}, ${requests} HTTP requests, ${formatDuration(durationMs)}`)],
    [heading('What became of the calls'), ...outcomeTable(run, paint)],
    [heading('What went wrong on the way'), ...failureTable(tally, paint)],
    sample(run, paint, heading),
    [heading('Read on'), ...readOn(paint)],
  ]
  const shown = sections.filter(lines => lines.length > 0)
  return `\n${shown.map(lines => lines.join('\n')).join('\n\n')}\n`
}

/** How many calls ended in which way. Every call is in exactly one row. */
export function outcomes({ tally, total }: Run): Map<string, number> {
  const succeeded = new Map<number, number>()
  const gaveUp = new Map<string, number>()
  let interrupted = 0
  for (const { state, retries, ending } of tally.calls.values()) {
    if (state === 'succeeded') increment(succeeded, retries)
    else if (ending !== undefined) increment(gaveUp, `gave up: ${ending.reason} (${ending.verdict.code})`)
    else interrupted++
  }

  const rows = new Map<string, number>()
  for (const [retries, count] of [...succeeded].sort(([a], [b]) => a - b)) rows.set(successLabel(retries), count)
  for (const [label, count] of [...gaveUp].sort(([a], [b]) => a.localeCompare(b))) rows.set(label, count)
  if (interrupted > 0) rows.set('interrupted', interrupted)
  if (tally.calls.size < total) rows.set('not started', total - tally.calls.size)
  return rows
}

function successLabel(retries: number): string {
  if (retries === 0) return 'succeeded at once'
  return `succeeded after ${retries} ${retries === 1 ? 'retry' : 'retries'}`
}

function outcomeTable(run: Run, paint: Paint): string[] {
  const rows = [...outcomes(run)]
  const sum = rows.reduce((total, [, count]) => total + count, 0)
  const most = Math.max(...rows.map(([, count]) => count))
  const line = (label: string, count: number) => `  ${label.padEnd(40)}${String(count).padStart(5)}`
  return [
    ...rows.map(([label, count]) => {
      const colour = label.startsWith('succeeded') ? 'green' : label.startsWith('gave up') ? 'red' : 'yellow'
      return `${line(label, count)}  ${paint(colour, bar(count / most, BAR_WIDTH))}`
    }),
    paint('dim', line('in all', sum)),
  ]
}

function failureTable(tally: Tally, paint: Paint): string[] {
  const rows = [...tally.failures.values()]
    .sort((a, b) => b.seen - a.seen)
    .map(({ verdict, seen, retried }) => [verdict.code, verdict.class, String(seen), String(retried)])
  return table(['failure', 'class', 'seen', 'retried'], rows, [16, 14, -6, -9], paint)
}

/** The record of the call that has seen the most kinds of failure before it was given up. */
function sample({ results }: Run, paint: Paint, heading: (text: string) => string): string[] {
  const [error] = results
    .flatMap(result => (result.status === 'rejected' && isExhausted(result.reason) ? [result.reason] : []))
    .sort((a, b) => kinds(b) - kinds(a))
  if (error === undefined) return []
  const firstAt = error.attempts[0]?.failedAt ?? 0
  const rows = error.attempts.map(record => [
    String(record.attempt),
    `+${formatDuration(record.failedAt - firstAt)}`,
    record.verdict.code,
    record.verdict.class,
    next(record),
  ])
  return [
    heading('One RetryExhaustedError: every attempt is on record'),
    wrap(error.message, '  '),
    ...table(['attempt', 'failed', 'failure', 'class', 'then'], rows, [-9, -9, 12, 14, 30], paint),
  ]
}

function isExhausted(reason: unknown): reason is RetryExhaustedError {
  return reason instanceof RetryExhaustedError
}

function kinds({ attempts }: RetryExhaustedError): number {
  return new Set(attempts.map(({ verdict }) => verdict.code)).size
}

function next({ decision, verdict }: AttemptRecord): string {
  if (decision.action === 'give_up') return `gave up: ${decision.reason}`
  const isAsked = verdict.class === 'rate_limited' && verdict.retryAfterMs !== undefined
  return `waited ${formatDuration(decision.delayMs)}${isAsked ? ', as Retry-After asked' : ''}`
}

function readOn(paint: Paint): string[] {
  const places = [
    ['README.md', 'what Redrive does, and how to start'],
    ['src/policy/decide.ts', 'the one place that decides what follows a failure'],
    ['src/call/retry.ts', 'the function that made these calls'],
    ['examples/, docs/', 'short programs to copy from, and the guides'],
  ] as const
  return places.map(([path, what]) => `  ${paint('cyan', path.padEnd(22))}${what}`)
}

/** Columns of the given widths; a negative width is for figures, which stand to the right. */
function table(head: string[], rows: string[][], widths: readonly number[], paint: Paint): string[] {
  const format = (cells: string[]) =>
    cells
      .map((cell, i) => {
        const width = widths[i] ?? 0
        return width < 0 ? cell.padStart(-width) : `  ${cell.padEnd(width)}`
      })
      .join('')
      .trimEnd()
  return [paint('dim', format(head)), ...rows.map(format)]
}

function increment<K>(counts: Map<K, number>, key: K): void {
  counts.set(key, (counts.get(key) ?? 0) + 1)
}
