// Pipelines on PostgreSQL: how near they come to SQL written by hand, and what a second process adds.
import { items } from '../pipelines/items.mjs'
import * as limit from '../pipelines/postgres-limit.mjs'
import * as redrive from '../pipelines/redrive.mjs'
import { isShort } from '../pipelines/short.mjs'
import { workerApart } from '../pipelines/worker-apart.mjs'
import { rateFigure, timeRounds } from '../postgres/rounds.mjs'
import { withServer } from '../postgres/server.mjs'

const ROUNDS = isShort ? 1 : 3
const ITEMS = isShort ? 10_000 : 100_000
/** How many items of each stage both commit at once, and how many both take from the source at once. */
const SIZES = { batch: 500, chunk: 1000 }

/** One process reads and works, another works. */
const twoProcesses = {
  open: async url => {
    const store = await redrive.openServer(url)
    const other = await workerApart(url, SIZES.batch)
    return { store, other, close: () => store.close() }
  },
  measured: async ({ store, other }) => {
    const run = await redrive.noOps(SIZES.batch).start(items(ITEMS), { store })
    other.work(run.id)
    redrive.expectAll(await run.result, ITEMS)
    return () => other.close()
  },
}

const figures = await withServer(async server => {
  const times = await timeRounds(
    server,
    {
      limit: { open: limit.open, measured: db => limit.run(db, ITEMS, SIZES) },
      'one process': { open: redrive.openServer, measured: store => redrive.run(store, ITEMS, SIZES) },
      'two processes': twoProcesses,
    },
    ROUNDS,
  )
  const common = { times, tasks: { all: ITEMS }, unit: 'items' }
  return [
    rateFigure(`${ITEMS} items through three stages that do nothing, on PostgreSQL`, {
      ...common,
      shares: { share: { of: 'limit', head: '× limit' } },
      names: { limit: 'SQL by hand, 500 items of each stage per commit', 'one process': 'redrive' },
      target: { row: 'redrive', key: 'share', min: 0.5 },
    }),
    rateFigure('The same, with a second process', {
      ...common,
      shares: { share: { of: 'one process', head: '× one process' } },
      target: { row: 'two processes', key: 'share', min: 1.4 },
    }),
  ]
})
console.log(JSON.stringify(figures))
