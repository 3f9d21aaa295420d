import type { Command } from 'commander'
import type { CommandContext } from '../command.js'
import { UsageError } from '../errors.js'
import { openStore, type StoreOptions } from './open-store.js'
import { nonEmpty, withStoreOption } from './options.js'

interface MigrateOptions extends StoreOptions {
  readonly grant?: string
}

/** Adds `redrive migrate`. */
export function addMigrate(program: Command, { environment, console }: CommandContext): void {
  withStoreOption(program.command('migrate'))
    .description('make the store, or bring it to the version of this Redrive')
    .option('--grant <role>', 'let this role of PostgreSQL use the store, and no more', nonEmpty)
    .addHelpText(
      'after',
      `
A worker does so by itself where it may. With PostgreSQL, give a role that may
make the schema, or the one that owns it.

Examples:
  redrive migrate --store sqlite:./.redrive/redrive.db
  redrive migrate --store postgres://owner@host/app --grant shop_app`,
    )
    .action(async (options: MigrateOptions) => {
      const store = await openStore(options, environment, { mayCreate: true })
      try {
        if (options.grant !== undefined) {
          if (!('grant' in store)) throw new UsageError('--grant is for PostgreSQL: a file has no roles.')
          await store.grant(options.grant)
        }
      } finally {
        await store.close()
      }
      console.say(`The store is ready${options.grant === undefined ? '' : `, and '${options.grant}' may use it`}.`)
    })
}
