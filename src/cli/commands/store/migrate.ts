import type { Command } from 'commander'
import type { CommandContext } from '../../command.js'
import { UsageError } from '../../errors.js'
import { quoted } from '../../terminal/visible.js'
import { type DurableStore, openStore, type StoreOptions } from '../shared/open-store.js'
import { nonEmpty, withStoreOption } from '../shared/options.js'

interface MigrateOptions extends StoreOptions {
  readonly grant?: string
  readonly grantRead?: string
  readonly grantEnqueue?: string
}

/** Adds `redrive migrate`. */
export function addMigrate(program: Command, context: CommandContext): void {
  withStoreOption(program.command('migrate'))
    .description('Create the store, or upgrade it to this version')
    .option('--grant <role>', 'PostgreSQL role that gets the right to use the store, and nothing else', nonEmpty)
    .option('--grant-read <role>', 'PostgreSQL role that gets the right to read the views, and nothing else', nonEmpty)
    .option(
      '--grant-enqueue <role>',
      "PostgreSQL role that gets the right to call 'redrive.enqueue', and nothing else",
      nonEmpty,
    )
    .addHelpText(
      'after',
      `
A worker does this by itself if it may. With PostgreSQL, connect as a role that
may create the schema, or that owns it.

Examples:
  redrive migrate --store sqlite:./.redrive/redrive.db
  redrive migrate --store postgres://owner@host/app --grant shop_app
  redrive migrate --store postgres://owner@host/app --grant-read grafana
  redrive migrate --store postgres://owner@host/app --grant-enqueue shop_web`,
    )
    .action(async (options: MigrateOptions) => {
      const { environment, console } = context
      const store = await openStore(options, environment, { mayCreate: true })
      try {
        await giveRights(store, options)
      } finally {
        await store.close()
      }
      const given = GRANTS.flatMap(({ option, may }) => {
        const role = options[option]
        return role === undefined ? [] : [`, and ${quoted(role)} may ${may}`]
      })
      console.say(`The store is ready${given.join('')}.`)
    })
}

/** The rights that a role can be given. The name of each option is that of the method of a store. */
const GRANTS = [
  { option: 'grant', flag: '--grant', may: 'use it' },
  { option: 'grantRead', flag: '--grant-read', may: 'read its views' },
  { option: 'grantEnqueue', flag: '--grant-enqueue', may: 'enqueue into it' },
] as const

async function giveRights(store: DurableStore, options: MigrateOptions): Promise<void> {
  for (const { option, flag } of GRANTS) {
    const role = options[option]
    if (role === undefined) continue
    if (!('grant' in store)) throw new UsageError(`${flag} is for PostgreSQL. SQLite files have no roles.`)
    await store[option](role)
  }
}
