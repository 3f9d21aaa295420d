import { type Command, Option } from 'commander'
import { explainGroup, type GroupExplanation, listGroups } from '../../../operate/index.js'
import { groupView } from '../../../operate/internal.js'
import type { GroupFilter } from '../../../store/internal.js'
import { type GroupState, groupTitle } from '../../../store/internal.js'

import type { CommandContext } from '../../command.js'
import { ExitCode } from '../../errors.js'
import { suggest } from '../../suggest.js'
import { grouped } from '../../terminal/chart.js'
import type { Console } from '../../terminal/console.js'
import { writeOne } from '../../terminal/output.js'
import { paragraph } from '../../terminal/table.js'
import { moment } from '../../terminal/times.js'
import { noMatch } from '../shared/no-match.js'
import { withStore } from '../shared/open-store.js'
import { type CommonOptions, nonEmpty, withCommonOptions, withPageOptions } from '../shared/options.js'
import { type PageOptions, printList } from '../shared/print-list.js'
import { addGroupMarks } from './marks.js'
import { addGroupRules } from './rules.js'
import { groupTable, lifeText, sparkline } from './text.js'

interface GroupListOptions extends CommonOptions, PageOptions {
  readonly kind?: string
  readonly state?: GroupState
}

/** Ignored groups are listed only if somebody asks for them. */
export const SHOWN = ['new', 'acknowledged', 'fixed', 'regressed'] as const

/** Adds `redrive groups`. */
export function addGroups(program: Command, context: CommandContext): void {
  const groups = program
    .command('groups')
    .helpCommand(false)
    .description('List, show and mark groups of work that failed in the same way, retrying or dead')
  const ls = groups
    .command('ls')
    .description('List failure groups, last seen first')
    .option('--kind <kind>', 'Only groups of this kind', nonEmpty)
    .addOption(
      new Option('--state <state>', 'Only groups in this state (default: all but ignored)').choices([
        ...SHOWN,
        'ignored',
      ]),
    )
    .action(async (options: GroupListOptions) => context.end(await printGroups(context, options)))
  withCommonOptions(withPageOptions(ls, 'groups')).addHelpText(
    'after',
    `
Failures whose messages differ only in ids, numbers and other values are one
group: 'order * not found'. SEEN counts failed attempts, ever; RETRYING and DEAD
count tasks, now. An acknowledged group is shown as 'acked'.

Examples:
  redrive groups ls
  redrive groups ls --state regressed
  redrive groups ls --kind charge --output json`,
  )
  const show = groups
    .command('show')
    .description('Show what the failures of a group have in common, and what to do next')
    .argument('<group>', 'Id of the group, or the beginning of it')
    .action(async (id: string, options: CommonOptions) => context.end(await showGroup(context, id, options)))
  withCommonOptions(show).addHelpText('after', '\nExample:\n  redrive groups show 9c2f')
  addGroupMarks(groups, context)
  addGroupRules(groups, context)
}

function printGroups({ console, environment }: CommandContext, options: GroupListOptions): Promise<ExitCode> {
  const { kind, state } = options
  const ofKind: GroupFilter = kind === undefined ? {} : { kind }
  return withStore(options, environment, async store => {
    const now = await store.now()
    const code = await printList(console, options, {
      read: page => store.groups.list({ ...ofKind, states: state === undefined ? SHOWN : [state] }, page),
      toJson: groupView,
      toTable: (groups, layout) => groupTable(groups, console, now, layout),
      none: () => noMatch(store, 'failure groups', { kind }),
    })
    const ignored = state === undefined ? (await listGroups(store, { ...ofKind, states: ['ignored'] })).length : 0
    if (ignored > 0)
      console.say(`${grouped(ignored)} ignored. To list them, run: ${suggest('groups ls', { '--state': 'ignored' })}`)
    return code
  })
}

function showGroup({ console, environment }: CommandContext, id: string, options: CommonOptions): Promise<ExitCode> {
  return withStore(options, environment, async store => {
    const group = await explainGroup(store, id)
    const now = await store.now()
    const commands = commandsFor(group)
    writeOne(console, options.output, { ...group, commands }, () => groupText(group, commands, console, now))
    return ExitCode.done
  })
}

/** The command lines that show and redrive the tasks of a group, and mark it. */
function commandsFor({ id, dead, retrying, life }: GroupExplanation): string[] {
  return [
    ...(dead + retrying > 0 ? [suggest('task ls', { '--group': id })] : []),
    ...(life.state === 'new' || life.state === 'regressed' ? [suggest('groups ack', { '--why': 'REASON' }, id)] : []),
    ...(life.state === 'fixed'
      ? []
      : [suggest('groups fix', { '--in': 'RELEASE', ...(dead > 0 && { '--redrive': true }) }, id)]),
    ...(dead > 0 ? [suggest('dlq redrive', { '--group': id, '--canary': 10, '--dry-run': true })] : []),
  ]
}

/** A number of things, in the singular if it is one. */
function countText(count: number, one: string, many: string): string {
  return `${grouped(count)} ${count === 1 ? one : many}`
}

function groupText(group: GroupExplanation, commands: readonly string[], console: Console, now: number): string {
  const { paint, width } = console
  const indented = (text: string) => paragraph(text, { width, indent: '  ' })
  const fields = (values: Readonly<Record<string, unknown>>) =>
    Object.entries(values).flatMap(([field, value]) =>
      indented(
        `${field}: ${Array.isArray(value) ? value.map(each => (each === '' ? 'none' : each)).join(' | ') : value}`,
      ),
    )
  const [shared, varies] = [fields(group.shared), fields(group.varies)]
  return [
    ...paragraph(group.id, { width, indent: '' }).map(paint.bold),
    ...indented(groupTitle(group)),
    '',
    ...paragraph(`state     ${lifeText(group.life, now)}`, { width, indent: '' }),
    `seen      ${countText(group.seen, 'failed attempt', 'failed attempts')}`,
    `now       ${grouped(group.retrying)} retrying, ${grouped(group.dead)} dead`,
    `first     ${moment(group.firstSeenAt, now)}`,
    `last      ${moment(group.lastSeenAt, now)}`,
    `24 hours  ${sparkline(group.trend)}`,
    `peak      ${grouped(Math.max(0, ...group.trend))} an hour`,
    ...(group.examples.length === 0 ? [] : paragraph(`examples  ${group.examples.join(', ')}`, { width, indent: '' })),
    '',
    paint.bold('Why they are one group'),
    ...indented(group.why),
    ...(shared.length === 0
      ? []
      : [
          '',
          paint.bold(group.compared === 1 ? 'The latest one' : `What the latest ${grouped(group.compared)} share`),
          ...shared,
        ]),
    ...(varies.length === 0 ? [] : ['', paint.bold('What varies'), ...varies]),
    '',
    paint.bold('What to do next'),
    ...(group.retrying + group.dead > 0 ? [] : indented('No task is in this group any more.')),
    // Never wrapped, so that they can be copied.
    ...commands.map(command => `    ${paint.cyan(command)}`),
  ].join('\n')
}
