import type { Command } from 'commander'
import type { CommandContext } from '../../command.js'
import { UsageError } from '../../errors.js'
import { quoted } from '../../terminal/visible.js'
import { type DurableStore, openStore, type StoreOptions } from '../shared/open-store.js'
import { nonEmpty, withStoreOption } from '../shared/options.js'

interface MigrateOptions extends StoreOptions {
  readonly grant?: string
  readonly grantRead?: string
}

/** Adds `redrive migrate`. */
export function addMigrate(program: Command, context: CommandContext): void {
  withStoreOption(program.command('migrate'))
    .description('Create the store, or upgrade it to this version')
    .option('--grant <role>', 'PostgreSQL role that gets the right to use the store, and nothing else', nonEmpty)
    .option('--grant-read <role>', 'PostgreSQL role that gets the right to read the views, and nothing else', nonEmpty)
    .addHelpText(
      'after',
      `
A worker does this by itself if it may. With PostgreSQL, connect as a role that
may create the schema, or that owns it.

Examples:
  redrive migrate --store sqlite:./.redrive/redrive.db
  redrive migrate --store postgres://owner@host/app --grant shop_app
  redrive migrate --store postgres://owner@host/app --grant-read grafana`,
    )
    .action(async (options: MigrateOptions) => {
      const { environment, console } = context
      const { grant, grantRead } = options
      const store = await openStore(options, environment, { mayCreate: true })
      try {
        await giveRights(store, options)
      } finally {
        await store.close()
      }
      const use = grant === undefined ? '' : `, and ${quoted(grant)} may use it`
      const read = grantRead === undefined ? '' : `, and ${quoted(grantRead)} may read its views`
      console.say(`The store is ready${use}${read}.`)
    })
}

async function giveRights(store: DurableStore, { grant, grantRead }: MigrateOptions): Promise<void> {
  if (grant === undefined && grantRead === undefined) return
  if (!('grant' in store)) {
    const flag = grant === undefined ? '--grant-read' : '--grant'
    throw new UsageError(`${flag} is for PostgreSQL. SQLite files have no roles.`)
  }
  if (grant !== undefined) await store.grant(grant)
  if (grantRead !== undefined) await store.grantRead(grantRead)
}
