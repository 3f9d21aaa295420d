import { statSync } from 'node:fs'
import { resolve } from 'node:path'
import type { Command } from 'commander'
import { backupSqlite } from '../../../store/sqlite/internal.js'
import type { CommandContext } from '../../command.js'
import type { Environment } from '../../environment.js'
import { CommandError, ExitCode, UsageError } from '../../errors.js'
import { confirm } from '../../terminal/confirm.js'
import { withProgress } from '../../terminal/progress.js'
import { existingFile, type StoreOptions, schemeOf, storeUrl, unsupported } from '../shared/open-store.js'
import { withStoreOption } from '../shared/options.js'

interface BackupCommandOptions extends StoreOptions {
  readonly yes?: boolean
}

/** Adds `redrive backup`. */
export function addBackup(program: Command, context: CommandContext): void {
  withStoreOption(program.command('backup'))
    .description('Copy a SQLite store to a file, while workers go on')
    .argument('<file>', 'File to write')
    .option('-y, --yes', 'Replace an existing file without a confirmation prompt')
    .addHelpText(
      'after',
      `
Uses SQLite's own backup. The copy is the store at one moment, in one file that
its owner alone can read, and appears under its name when it is complete. A
copy made with cp while something writes is most often damaged.

To restore it, stop everything that uses the store, put the copy in its place,
and delete the files beside it that end with -wal and -shm.

Examples:
  redrive backup redrive-backup.db
  redrive backup /backups/redrive.db --store sqlite:./redrive.db --yes`,
    )
    .action(async (file: string, options: BackupCommandOptions) => context.end(await backup(context, file, options)))
}

async function backup(context: CommandContext, file: string, options: BackupCommandOptions): Promise<ExitCode> {
  const { console, environment } = context
  const store = sqliteFile(storeUrl(options, environment), environment.cwd)
  const target = resolve(environment.cwd, file)
  const exists = statSync(target, { throwIfNoEntry: false }) !== undefined
  if (exists && !options.yes) await askFirst(environment, file)
  return withProgress(context, 'page', async ({ signal, report }) => {
    const onProgress = (done: number, total: number) => report(() => `${Math.floor((100 * done) / total)} % copied.`)
    try {
      await backupSqlite(store, target, { overwrite: exists, signal, onProgress })
    } catch (error) {
      if (error === signal.reason) {
        console.say('Stopped. No backup was written.')
        return ExitCode.error
      }
      throw explained(error, file)
    }
    console.say(`Backed up to '${file}': ${statSync(target).size} bytes.`)
    return ExitCode.done
  })
}

/** The file of the store. */
function sqliteFile(url: string, cwd: string): string {
  switch (schemeOf(url)) {
    case 'sqlite':
      return existingFile(url, cwd)
    case 'postgres':
    case 'postgresql':
      throw new UsageError(
        'redrive backup is for SQLite. PostgreSQL has tools of its own: pg_dump --schema redrive writes the store alone.',
      )
    default:
      throw unsupported(url)
  }
}

async function askFirst(environment: Environment, file: string): Promise<void> {
  switch (await confirm(environment, `Replace '${file}'?`)) {
    case 'yes':
      return
    case 'no':
      throw new UsageError('Not confirmed. No backup was written.')
    case 'unasked':
      throw new UsageError(`'${file}' exists already. Name another file, or pass --yes to replace it.`)
  }
}

/** An error of the file system, in words. */
function explained(error: unknown, file: string): unknown {
  const code = error instanceof Error && 'code' in error ? String(error.code) : ''
  if (!/^E[A-Z]+$/.test(code)) return error
  return new CommandError(`'${file}' cannot be created (${code}). Does its folder exist, and may you write there?`, {
    cause: error,
  })
}
