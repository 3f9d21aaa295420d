import type { Command } from 'commander'
import { followAudit, type Verification, verify } from '../../../operate/index.js'
import type { CommandContext } from '../../command.js'
import { ExitCode } from '../../errors.js'
import { grouped } from '../../terminal/chart.js'
import type { Console } from '../../terminal/console.js'
import { writeOne, writePages } from '../../terminal/output.js'
import { withProgress } from '../../terminal/progress.js'
import { signalsOf } from '../../terminal/signals.js'
import { ID_WIDTH, table } from '../../terminal/table.js'
import { withStore } from '../shared/open-store.js'
import { type CommonOptions, wholeNumber, withCommonOptions } from '../shared/options.js'
import { auditTable, auditView } from './audit-text.js'

interface TailOptions extends CommonOptions {
  readonly limit: number
  readonly follow?: boolean
}

/** Adds `redrive audit`. */
export function addAudit(program: Command, context: CommandContext): void {
  const audit = program.command('audit').description('Show who did what, and verify the decisions on record')

  const tail = audit
    .command('tail')
    .description('Show the last audit records, oldest first')
    .option('--limit <n>', 'Number of records', wholeNumber(1, 10_000), 50)
    .option('-f, --follow', 'Print new records as they come, until Ctrl-C')
    .action(async (options: TailOptions) => context.end(await printTail(context, options)))
  withCommonOptions(tail).addHelpText(
    'after',
    `
Redrives, cancellations, discards, pauses and limits are on record with who and
why, and so is whatever your own sinks write there.

Examples:
  redrive audit tail --limit 10
  redrive audit tail --follow --output jsonl`,
  )

  const check = audit
    .command('verify')
    .description('Recompute every decision on record, and show those that differ, and damaged records')
    .action(async (options: CommonOptions) => context.end(await printVerification(context, options)))
  withCommonOptions(check).addHelpText(
    'after',
    `
Each retry, deferral and death is decided by a policy, from facts that are in
the ledger: so the decision can be made again. Every record is read on the way:
JSON that cannot be read, and a ledger with a gap, show damage to the store.

Exits with 1 if a decision differs or a record is damaged, and with 3 if a
decision could not be recomputed, because the store does not have its policy.

Example:
  redrive audit verify`,
  )
}

function printTail({ console, environment }: CommandContext, options: TailOptions): Promise<ExitCode> {
  return withStore(options, environment, async store => {
    const signals = signalsOf(environment)
    const stop = new AbortController()
    void signals.next().then(() => stop.abort())
    try {
      const pages = followAudit(store, { limit: options.limit, signal: options.follow ? stop.signal : undefined })
      const count = await writePages(console, pages, {
        format: options.output,
        toJson: auditView,
        toTable: (records, layout) => auditTable(records, console, layout),
      })
      if (count === 0) console.say('No audit records.')
      return ExitCode.done
    } finally {
      signals.close()
    }
  })
}

function printVerification(context: CommandContext, options: CommonOptions): Promise<ExitCode> {
  const { console, environment } = context
  return withStore(options, environment, store =>
    withProgress(context, 'page', async ({ signal, report }) => {
      const onProgress = (tasks: number) => report(() => `${grouped(tasks)} tasks read so far.`)
      try {
        return tellVerification(console, options, await verify(store, { signal, onProgress }))
      } catch (error) {
        if (error !== signal.reason) throw error
        console.say('Stopped before the end. Run it again to verify all of it.')
        return ExitCode.partly
      }
    }),
  )
}

function tellVerification(console: Console, { output }: CommonOptions, result: Verification): ExitCode {
  const { tasks, decisions, unknown, discrepancies, problems } = result
  const isSound = discrepancies.length === 0 && problems.length === 0
  if (output !== 'table' || !isSound) {
    writeOne(console, output, result, () =>
      [
        ...(discrepancies.length > 0 ? [discrepancyTable(discrepancies, console)] : []),
        ...(problems.length > 0 ? [problemTable(problems, console)] : []),
      ].join('\n\n'),
    )
  }
  const about = `${countOf(decisions, 'decision')} on ${countOf(tasks, 'task')}`
  const differ = discrepancies.length === 1 ? 'differs' : 'differ'
  console.say(`${about} recomputed: ${grouped(discrepancies.length)} ${differ}.`)
  if (unknown > 0) console.say(`${grouped(unknown)} could not be recomputed: the store does not have their policy.`)
  if (problems.length > 0) {
    const are = problems.length === 1 ? 'problem shows' : 'problems show'
    console.say(`${grouped(problems.length)} ${are} damage from outside. Compare with a backup of the store.`)
  }
  if (!isSound) return ExitCode.error
  return unknown > 0 ? ExitCode.partly : ExitCode.done
}

function countOf(count: number, noun: string): string {
  return `${grouped(count)} ${noun}${count === 1 ? '' : 's'}`
}

function discrepancyTable(discrepancies: Verification['discrepancies'], console: Console): string {
  const columns = [
    { title: 'TASK', minWidth: ID_WIDTH },
    { title: 'ROW' },
    { title: 'RECORDED' },
    { title: 'RECOMPUTED' },
  ]
  const rows = discrepancies.map(({ taskId, step, sequence, recorded, recomputed }) => ({
    cells: [taskId, step === undefined ? String(sequence) : `${step}: ${sequence}`, recorded, recomputed],
  }))
  return table(columns, rows, console)
}

function problemTable(problems: Verification['problems'], console: Console): string {
  const columns = [{ title: 'TASK', minWidth: ID_WIDTH }, { title: 'PROBLEM' }]
  const rows = problems.map(({ taskId = '-', problem }) => ({ cells: [taskId, problem] }))
  return table(columns, rows, console)
}
