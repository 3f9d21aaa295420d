// Durable tasks on PostgreSQL: how near they come to SQL written by hand, and to others. By the clock on the wall.

import { median } from '../interleave.mjs'
import * as bullmq from '../postgres/bullmq.mjs'
import * as graphileWorker from '../postgres/graphile-worker.mjs'
import * as limit from '../postgres/limit.mjs'
import * as pgBoss from '../postgres/pg-boss.mjs'
import * as redrive from '../postgres/redrive.mjs'
import { rateFigure, ratios, timeRounds } from '../postgres/rounds.mjs'
import { withServer } from '../postgres/server.mjs'
import * as simplest from '../postgres/simplest.mjs'
import { workersApart } from '../postgres/workers-apart.mjs'

const TASKS = 20_000
const FEWER = 5000
const FEW = 500
const SINGLE = 1000
const CHUNK = 1000

const toDrain = (contestant, count, failing) => ({
  open: contestant.open,
  prepare: store => contestant.enqueue(store, count),
  measured: store => contestant.drain(store, count, failing),
})
const toEnqueue = ({ open, enqueue, enqueueInChunks = inChunks(enqueue) }) => ({
  open,
  measured: store => enqueueInChunks(store, TASKS, CHUNK),
})
const inChunks = enqueue => async (store, count, chunk) => {
  for (let left = count; left > 0; left -= chunk) await enqueue(store, Math.min(left, chunk))
}
/** The limits take the size of their batches. */
const byHand = ({ open, enqueue }) => toEnqueue({ open, enqueueInChunks: enqueue })
const toEnqueueOneByOne = ({ open, enqueueOneByOne }) => ({
  open,
  measured: store => enqueueOneByOne(store, SINGLE),
})
const limits = {
  names: {
    simplest: 'SQL by hand, simplest schema with a ledger',
    limit: 'SQL by hand, the same rows as redrive',
  },
  shares: {
    shareOfSimplest: { of: 'simplest', head: '× simplest' },
    share: { of: 'limit', head: '× same rows' },
  },
}

async function drains(server) {
  const tasks = { all: TASKS, BullMQ: FEWER }
  const times = await timeRounds(server, {
    simplest: toDrain(simplest, TASKS),
    limit: toDrain(limit, TASKS),
    redrive: toDrain(redrive, TASKS),
    'graphile-worker': toDrain(graphileWorker, TASKS),
    'pg-boss': toDrain(pgBoss, TASKS),
    BullMQ: toDrain(bullmq, FEWER),
  })
  const target = { row: 'redrive', key: 'share', min: 0.65 }
  const notes = { redrive: 'every attempt on record', 'graphile-worker': 'deletes what is done', BullMQ: 'of 5000' }
  return [
    rateFigure(`Drain of ${TASKS} tasks that do nothing, on PostgreSQL`, { times, tasks, notes, target, ...limits }),
    against('The same, against graphile-worker', { times, tasks, other: 'graphile-worker', min: 1 }),
    against('The same, against pg-boss', { times, tasks, other: 'pg-boss', min: 1 }),
  ]
}

/** How many times as fast redrive is as another. */
function against(title, { times, tasks, other, min }) {
  return {
    title,
    columns: [{ key: 'times', head: `× ${other}`, digits: 2 }],
    rows: [{ name: 'redrive', times: median(ratios(times, tasks, 'redrive', other)) }],
    target: { row: 'redrive', key: 'times', min },
  }
}

/** Processes that have been at work before: the kind is paused while the tasks that count are enqueued. */
async function drainsApart(server) {
  const apart = processes => ({
    open: async url => ({ url, store: await redrive.open(url), close() {} }),
    prepare: async here => {
      here.workers = await workersApart(here.url, processes)
      const warm = here.workers.drained(TASKS)
      await redrive.enqueue(here.store, TASKS)
      await warm
      await here.store.pause({ kind: 'work' }, { isPaused: true })
      await redrive.enqueue(here.store, TASKS)
    },
    measured: async ({ store, workers }) => {
      const drained = workers.drained(TASKS)
      await store.pause({ kind: 'work' }, { isPaused: false })
      await drained
      return async () => {
        await workers.stop()
        await store.close()
      }
    },
  })
  const times = await timeRounds(server, { 'one process': apart(1), 'two processes': apart(2) })
  return [
    rateFigure('The same, in processes of their own', {
      times,
      tasks: { all: TASKS },
      shares: { share: { of: 'one process', head: '× one process' } },
      target: { row: 'two processes', key: 'share', min: 1 },
    }),
  ]
}

async function drainsWithFailures(server) {
  const tasks = { all: FEWER, 'pg-boss, throwing': FEW }
  const times = await timeRounds(server, {
    simplest: toDrain(simplest, FEWER, 5),
    limit: toDrain(limit, FEWER, 5),
    redrive: toDrain(redrive, FEWER, 5),
    'pg-boss': toDrain(pgBoss, FEWER, 5),
    'pg-boss, throwing': toDrain({ ...pgBoss, drain: pgBoss.drainThrowing }, FEW, 5),
  })
  const target = { row: 'redrive', key: 'shareOfSimplest', min: 0.65 }
  const notes = { 'pg-boss': 'the handler says of each job of a batch how it went', 'pg-boss, throwing': `of ${FEW}` }
  return [
    rateFigure(`Drain of ${FEWER} tasks, every fifth of which fails once`, { times, tasks, notes, target, ...limits }),
    against('The same, against pg-boss', { times, tasks, other: 'pg-boss', min: 5 }),
    against('The same, against pg-boss with a handler that throws', {
      times,
      tasks,
      other: 'pg-boss, throwing',
      min: 5,
    }),
  ]
}

async function enqueues(server) {
  const times = await timeRounds(server, {
    simplest: byHand(simplest),
    limit: byHand(limit),
    redrive: toEnqueue(redrive),
    'graphile-worker': toEnqueue(graphileWorker),
    'pg-boss': toEnqueue(pgBoss),
    BullMQ: toEnqueue(bullmq),
  })
  const target = { row: 'redrive', key: 'shareOfSimplest', min: 0.6 }
  const title = `Enqueue of ${TASKS} tasks, ${CHUNK} at once`
  return [rateFigure(title, { times, tasks: { all: TASKS }, target, ...limits })]
}

async function singleEnqueues(server) {
  const tasks = { all: SINGLE }
  const times = await timeRounds(server, {
    simplest: toEnqueueOneByOne(simplest),
    limit: toEnqueueOneByOne(limit),
    redrive: toEnqueueOneByOne(redrive),
    'graphile-worker': toEnqueueOneByOne(graphileWorker),
    'pg-boss': toEnqueueOneByOne(pgBoss),
    'redrive, all at once': { open: redrive.open, measured: store => redrive.enqueueConcurrently(store, SINGLE) },
  })
  return [
    rateFigure(`${SINGLE} single enqueues, one after the other`, { times, tasks, ...limits }),
    against('The same, against graphile-worker', { times, tasks, other: 'graphile-worker', min: 1 }),
    against('The same, against pg-boss', { times, tasks, other: 'pg-boss', min: 1 }),
    rateFigure(`${SINGLE} single enqueues, all at once`, {
      times: { 'one by one': times.redrive, concurrently: times['redrive, all at once'] },
      tasks,
      shares: { share: { of: 'one by one', head: '× one by one' } },
      target: { row: 'concurrently', key: 'share', min: 20 },
    }),
  ]
}

const figures = await withServer(async server => [
  ...(await drains(server)),
  ...(await drainsApart(server)),
  ...(await drainsWithFailures(server)),
  ...(await enqueues(server)),
  ...(await singleEnqueues(server)),
])
console.log(JSON.stringify(figures))
