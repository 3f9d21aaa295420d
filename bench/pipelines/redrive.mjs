import { pipeline, stage } from '../../dist/pipeline/index.js'
import { openPostgres } from '../../dist/store/postgres/index.js'
import { openSqlite } from '../../dist/store/sqlite/index.js'
import { items, itemsWithIds, STAGES } from './items.mjs'

export const openFile = path => openSqlite(path)
export const openServer = url => openPostgres(url)

/** Three stages that do nothing, each with room for `concurrency` items. */
export function noOps(concurrency) {
  const [first, second, third] = STAGES.map(name => stage(name, item => item, { concurrency }))
  return pipeline('bench', first, second, third)
}

export async function run(store, count, { batch }) {
  expectAll(await noOps(batch).run(items(count), { store }), count)
}

/** The same with random ids of the items' own. */
export async function runWithIds(store, count, { batch }) {
  expectAll(await noOps(batch).run(itemsWithIds(count), { store, itemId: ({ id }) => id }), count)
}

/** A run that did less than all would look fast. */
export function expectAll({ status, counts }, count) {
  if (status === 'completed' && counts.succeeded === count) return
  throw new Error(`The run is ${status}, with ${JSON.stringify(counts)} of ${count} items.`)
}
