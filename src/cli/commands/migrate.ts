import type { Command } from 'commander'
import type { CommandContext } from '../command.js'
import { UsageError } from '../errors.js'
import { quoted } from '../terminal/visible.js'
import { openStore, type StoreOptions } from './open-store.js'
import { nonEmpty, withStoreOption } from './options.js'

interface MigrateOptions extends StoreOptions {
  readonly grant?: string
}

/** Adds `redrive migrate`. */
export function addMigrate(program: Command, context: CommandContext): void {
  withStoreOption(program.command('migrate'))
    .description('Create the store, or upgrade it to this version')
    .option('--grant <role>', 'PostgreSQL role that gets the right to use the store, and nothing else', nonEmpty)
    .addHelpText(
      'after',
      `
A worker does this by itself if it may. With PostgreSQL, connect as a role that
may create the schema, or that owns it.

Examples:
  redrive migrate --store sqlite:./.redrive/redrive.db
  redrive migrate --store postgres://owner@host/app --grant shop_app`,
    )
    .action(async (options: MigrateOptions) => {
      const { environment, console } = context
      const store = await openStore(options, environment, { mayCreate: true })
      try {
        if (options.grant !== undefined) {
          if (!('grant' in store)) throw new UsageError('--grant is for PostgreSQL. SQLite files have no roles.')
          await store.grant(options.grant)
        }
      } finally {
        await store.close()
      }
      console.say(
        `The store is ready${options.grant === undefined ? '' : `, and ${quoted(options.grant)} may use it`}.`,
      )
    })
}
