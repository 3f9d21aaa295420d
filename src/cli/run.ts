import { readFileSync } from 'node:fs'
import { Command, CommanderError } from 'commander'
import { OptionError } from '../policy/index.js'
import { withoutSecrets } from '../telemetry/index.js'
import type { CommandContext } from './command.js'
import { addBatch } from './commands/batch/batch.js'
import { addBudget } from './commands/budget/budget.js'
import { addBus } from './commands/bus/bus.js'
import { addDlq } from './commands/dlq/dlq.js'
import { addDocs } from './commands/docs/docs.js'
import { addSweep } from './commands/docs/sweep.js'
import { addGroups } from './commands/groups/groups.js'
import { addLane } from './commands/lane/lane.js'
import { addOps } from './commands/ops/ops.js'
import { addPipeline } from './commands/pipeline/pipeline.js'
import { addPolicy } from './commands/policy/policy.js'
import { addQueue } from './commands/queue/queue.js'
import { addSchedule } from './commands/schedule/schedule.js'
import { addAudit } from './commands/store/audit.js'
import { addBackup } from './commands/store/backup.js'
import { addCost } from './commands/store/cost.js'
import { addMigrate } from './commands/store/migrate.js'
import { addMove } from './commands/store/move.js'
import { addPrune } from './commands/store/prune.js'
import { addStats } from './commands/store/stats.js'
import { addTask } from './commands/task/task.js'
import { addWhy } from './commands/task/why.js'
import { addWorker } from './commands/worker/worker.js'
import type { Environment } from './environment.js'
import { ExitCode, errorText, UsageError } from './errors.js'
import { inProject } from './project.js'
import { whileSuggesting } from './suggest.js'
import { type Console, consoleOf } from './terminal/console.js'
import { quoted } from './terminal/visible.js'

/** Longer lines are harder to read. */
const HELP_WIDTH = 80

/** Runs the `redrive` command. Resolves with its exit code, and never rejects. */
export function run(argv: readonly string[], environment: Environment): Promise<ExitCode> {
  return whileSuggesting(enter => runWith(argv, environment, enter))
}

async function runWith(
  argv: readonly string[],
  environment: Environment,
  enter: (command: Command) => void,
): Promise<ExitCode> {
  const console = consoleOf(environment)
  let code: ExitCode = ExitCode.done
  const context = { environment, console, end: (ended: ExitCode) => (code = ended) }
  const program = programOf(context).hook('preAction', async (_, command) => {
    enter(command)
    if (command.name() !== 'help') context.environment = await inProject(environment)
  })
  try {
    await program.parseAsync(withoutHelpOfUnknown(program, argv), { from: 'user' })
    return code
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? ExitCode.done : ExitCode.usage
    console.say(`redrive: ${errorText(error)}`)
    return error instanceof UsageError || error instanceof OptionError ? ExitCode.usage : ExitCode.error
  }
}

function programOf(context: CommandContext): Command {
  const { environment, console } = context
  const { stdout, stderr } = environment
  const program = new Command('redrive')
    .description('Run durable tasks, inspect them, and redrive their dead letters.')
    .version(versionOfPackage(), '--version', 'Print the version')
    .helpOption('-h, --help', 'Print this help')
    .helpCommand(false)
    // Flags after the name of a command are its own: 'worker' has some, and 'worker ls' has others of the same name.
    .enablePositionalOptions()
    .showHelpAfterError('(For help, pass --help.)')
    .exitOverride()
    .configureOutput({
      writeOut: text => stdout.write(text),
      writeErr: text => stderr.write(text),
      outputError: text => sayUsageError(console, text),
      getOutHelpWidth: () => Math.min(console.width, HELP_WIDTH),
      getErrHelpWidth: () => Math.min(console.messageWidth, HELP_WIDTH),
      getOutHasColors: () => console.paint.isColorSupported,
      getErrHasColors: () => console.messagePaint.isColorSupported,
    })
    .configureHelp({ styleTitle: title => console.paint.bold(title) })
  addWorker(program, context)
  addPipeline(program, context)
  addTask(program, context)
  addWhy(program, context)
  addDlq(program, context)
  addGroups(program, context)
  addOps(program, context)
  addLane(program, context)
  addBudget(program, context)
  addSchedule(program, context)
  addBatch(program, context)
  addStats(program, context)
  addCost(program, context)
  addQueue(program, context)
  addSweep(program, context)
  addDocs(program, context)
  addBus(program, context)
  addAudit(program, context)
  addPolicy(program, context)
  addPrune(program, context)
  addMigrate(program, context)
  addMove(program, context)
  addBackup(program, context)
  addHelp(program)
  return program.addHelpText(
    'after',
    `
Data goes to stdout; messages and progress go to stderr.
Exit codes: 0 done, 1 error, 2 wrong usage or refused, 3 done in part.

Examples:
  redrive worker ./tasks.js                 run tasks until Ctrl-C
  redrive pipeline run ./enrich.js --in samples.jsonl --out results.jsonl
                                            run items through stages
  redrive stats                             how many tasks wait, run and died
  redrive task ls --status waiting          list waiting tasks
  redrive why ID                            why a task waits, runs or died
  redrive groups ls                         what fails, and how often
  redrive dlq ls                            list dead letters
  redrive dlq show ID                       why a task died, and what to do next
  redrive dlq redrive --kind K --code C     redrive dead letters that match`,
  )
}

/** A command that does not exist has no help: without this, `redrive dlq lss --help` would print the help of `dlq`. */
function withoutHelpOfUnknown(program: Command, argv: readonly string[]): readonly string[] {
  const isHelp = (word: string) => word === '--help' || word === '-h'
  const words = argv.filter(word => !isHelp(word))
  let command = program
  for (const word of words) {
    if (word.startsWith('-') || command.commands.length === 0 || command.registeredArguments.length > 0) return argv
    const found = command.commands.find(each => each.name() === word || each.aliases().includes(word))
    if (found === undefined) return words
    command = found
  }
  return argv
}

/** Flags that other commands have for the format of their output. */
const OUTPUT_FLAG = /unknown option '--(json|jsonl|format)\b/

/** Prints an error of the parser, which may repeat an argument, as one message, and its suggestion as another. */
function sayUsageError(console: Console, text: string): void {
  const [error = '', similar] = text.trimEnd().split(/\n(?=\(Did you mean [^\n]*\?\)$)/)
  const [, output] = OUTPUT_FLAG.exec(error) ?? []
  const suggestion =
    output === undefined ? similar : `(Did you mean --output ${output === 'jsonl' ? 'jsonl' : 'json'}?)`
  console.say(`redrive: ${withoutSecrets(error.replace(/^error: /, ''))}`)
  if (suggestion !== undefined) console.say(suggestion)
}

function versionOfPackage(): string {
  const json: unknown = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'))
  const hasVersion = typeof json === 'object' && json !== null && 'version' in json
  return hasVersion ? String(json.version) : 'unknown'
}

/** Adds `redrive help`, for any command: `redrive help dlq ls` is `redrive dlq ls --help`. */
function addHelp(program: Command): void {
  program
    .command('help')
    .description('Print the help of a command')
    .argument('[command...]', 'Words of the command, such as dlq ls')
    .action((words: string[]) => commandNamed(program, words).outputHelp())
}

function commandNamed(program: Command, words: readonly string[]): Command {
  return words.reduce((command, word) => {
    const found = command.commands.find(each => each.name() === word || each.aliases().includes(word))
    if (found !== undefined) return found
    const names = command.commands.map(each => each.name()).join(', ')
    const known = names === '' ? 'It has no commands of its own.' : `It has: ${names}.`
    throw new UsageError(`${quoted(pathOf(command))} has no command ${quoted(word)}. ${known}`)
  }, program)
}

function pathOf(command: Command): string {
  return command.parent === null ? command.name() : `${pathOf(command.parent)} ${command.name()}`
}
