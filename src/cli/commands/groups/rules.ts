import type { Command } from 'commander'
import { previewRules, type RegroupPreview } from '../../../operate/index.js'
import { groupRuleView } from '../../../operate/internal.js'

import { type GroupRule, isWorker, type NewGroupRule, type StoreContract } from '../../../store/internal.js'
import { withoutSecrets } from '../../../telemetry/index.js'
import type { CommandContext } from '../../command.js'
import { CommandError, ExitCode } from '../../errors.js'
import { suggest } from '../../suggest.js'
import { grouped } from '../../terminal/chart.js'
import type { Console } from '../../terminal/console.js'
import { writeList, writeResult } from '../../terminal/output.js'
import { NAME_WIDTH, table } from '../../terminal/table.js'
import { relative } from '../../terminal/times.js'
import { quoted } from '../../terminal/visible.js'
import { unknownKind } from '../shared/no-match.js'
import { withStore } from '../shared/open-store.js'
import { type CommonOptions, nonEmpty, wholeNumber, withCommonOptions } from '../shared/options.js'

interface RuleOptions extends CommonOptions {
  readonly why?: string
  readonly dryRun?: boolean
}

interface AddOptions extends RuleOptions {
  readonly kind?: string
}

/** A class in front of a message, as errors are shown. */
const CLASS = /^\w*(?:Error|Exception): /

/** Adds `redrive groups rule`. */
export function addGroupRules(groups: Command, context: CommandContext): void {
  const rule = groups
    .command('rule')
    .helpCommand(false)
    .description('List, add and remove rules that merge groups or split them')
  withCommonOptions(
    rule
      .command('ls')
      .description('List the rules')
      .action(async (options: CommonOptions) => context.end(await listRules(context, options))),
  ).addHelpText('after', '\nExample:\n  redrive groups rule ls')

  const add = rule
    .command('add')
    .description('Merge groups, or split them, by a pattern of their messages')
    .argument('<pattern>', 'Message with * for what varies, and {*} for what tells groups apart', nonEmpty)
    .option('--kind <kind>', 'Only failures of this kind (default: of every kind)', nonEmpty)
    .action(async (pattern: string, options: AddOptions) => context.end(await addRule(context, pattern, options)))
  withRuleOptions(add).addHelpText(
    'after',
    `
The pattern is compared with the whole message, without the class of the error.
Failures that match it are one group, with the pattern as its name. Of several
rules that match, the one with the most characters other than * holds: so a
longer pattern splits what a shorter one merges. Workers read the rules with
each heartbeat, and move what failed before once all of them have.

Examples:
  redrive groups rule add 'tenant * is over its limit'
  redrive groups rule add 'connect ECONNREFUSED {*}:*' --kind charge
  redrive groups rule add 'tenant Blue Sky is over its limit' --dry-run`,
  )

  const rm = rule
    .command('rm')
    .description('Remove a rule: its failures are grouped as before')
    .argument('<rule>', "Number of the rule, as 'groups rule ls' shows it", wholeNumber(1, Number.MAX_SAFE_INTEGER))
    .action(async (id: number, options: RuleOptions) => context.end(await removeRule(context, id, options)))
  withRuleOptions(rm).addHelpText('after', '\nExample:\n  redrive groups rule rm 3')
}

function withRuleOptions(command: Command): Command {
  command
    .option('--why <text>', 'Reason, for the record', nonEmpty)
    .option('--dry-run', 'Show which tasks would be in another group, and change nothing')
  return withCommonOptions(command)
}

function listRules({ console, environment }: CommandContext, options: CommonOptions): Promise<ExitCode> {
  return withStore(options, environment, async store => {
    const { rules } = await store.groups.rules()
    const now = await store.now()
    writeList(console, options.output, rules.map(groupRuleView), () => ruleTable(rules, console, now))
    if (rules.length === 0) console.say('No rules about groups.')
    return ExitCode.done
  })
}

function addRule(
  { console, environment }: CommandContext,
  pattern: string,
  { why, kind, dryRun, ...options }: AddOptions,
): Promise<ExitCode> {
  const [name] = CLASS.exec(pattern) ?? []
  if (name !== undefined)
    console.say(
      `A rule is compared with the message alone. If ${quoted(name)} is the class of the error, leave it out.`,
    )
  return withStore(options, environment, async store => {
    const rule: NewGroupRule = { pattern, ...(kind !== undefined && { kind }) }
    const { rules } = await store.groups.rules()
    if (dryRun) return printPreview(console, options, await previewRules(store, [...rules, rule]))
    const added = await store.groups.addRule(rule, { who: environment.user, why })
    writeResult(console, options.output, added)
    console.say(`Rule ${added.id} is on record. ${await whenText(store)}`)
    const unknown = kind === undefined ? undefined : await unknownKind(store, kind)
    if (unknown !== undefined) console.say(unknown)
    return ExitCode.done
  })
}

function removeRule(
  { console, environment }: CommandContext,
  id: number,
  { why, dryRun, ...options }: RuleOptions,
): Promise<ExitCode> {
  return withStore(options, environment, async store => {
    const { rules } = await store.groups.rules()
    const rule = rules.find(rule => rule.id === id)
    const isThere = rule !== undefined
    if (isThere && dryRun) {
      const left = rules.filter(other => other !== rule)
      return printPreview(console, options, await previewRules(store, left))
    }
    const by = { who: environment.user, why }
    if (!isThere || !(await store.groups.removeRule(id, by)))
      throw new CommandError(`There is no rule ${id}. To list the rules, run: ${suggest('groups rule ls')}`)
    writeResult(console, options.output, rule)
    console.say(`Rule ${id} is removed. ${await whenText(store)}`)
    return ExitCode.done
  })
}

async function whenText(store: Pick<StoreContract, 'workers'>): Promise<string> {
  return (await store.workers()).some(isWorker)
    ? 'Workers regroup what failed before, once all of them have read it: within a minute.'
    : 'No worker is running: the next one regroups what failed before.'
}

function printPreview(console: Console, options: CommonOptions, previews: readonly RegroupPreview[]): ExitCode {
  writeList(console, options.output, previews, () => previewTable(previews, console))
  if (previews.length === 0) console.say('No task would be in another group.')
  else console.say('Nothing has changed. To change it, leave out --dry-run.')
  return ExitCode.done
}

const RULE_COLUMNS = [
  { title: 'RULE' },
  { title: 'KIND', minWidth: NAME_WIDTH },
  { title: 'PATTERN', minWidth: 16 },
  { title: 'ADDED' },
  { title: 'BY' },
  { title: 'WHY' },
]

function ruleTable(rules: readonly GroupRule[], { width, paint }: Console, now: number): string {
  const rows = rules.map(({ id, kind, pattern, at, who, why }) => ({
    cells: [String(id), kind ?? 'all', pattern, relative(at, now), who, withoutSecrets(why ?? '-')],
  }))
  return table(RULE_COLUMNS, rows, { width, paint })
}

const PREVIEW_COLUMNS = [
  { title: 'KIND', minWidth: NAME_WIDTH },
  { title: 'FROM', minWidth: 16 },
  { title: 'TO', minWidth: 16 },
  { title: 'TASKS' },
]

function previewTable(previews: readonly RegroupPreview[], { width, paint }: Console): string {
  const rows = previews.map(({ kind, fromPattern, toPattern, tasks, looked }) => ({
    cells: [kind, fromPattern, toPattern, `${grouped(tasks)} of the latest ${grouped(looked)}`],
  }))
  return table(PREVIEW_COLUMNS, rows, { width, paint })
}
