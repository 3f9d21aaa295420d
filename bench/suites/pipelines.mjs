// Pipelines on SQLite: how near they come to SQL written by hand, and to the ideal rate of stages that wait.
import { setTimeout as sleep } from 'node:timers/promises'
import { pipeline, stage } from '../../dist/pipeline/index.js'
import * as redrive from '../pipelines/redrive.mjs'
import { isShort } from '../pipelines/short.mjs'
import * as limit from '../pipelines/sqlite-limit.mjs'
import { timeRounds } from '../pipelines/sqlite-rounds.mjs'
import { rateFigure } from '../postgres/rounds.mjs'

const ROUNDS = isShort ? 1 : 5
const ITEMS = isShort ? 10_000 : 100_000
/** How many items of each stage both commit at once, and how many both take from the source at once. */
const SIZES = { batch: 500, chunk: 1000 }

async function noOps() {
  const times = await timeRounds(
    {
      limit: { open: limit.open, measured: db => limit.run(db, ITEMS, SIZES) },
      redrive: { open: redrive.openFile, measured: store => redrive.run(store, ITEMS, SIZES) },
    },
    ROUNDS,
  )
  return rateFigure(`${ITEMS} items through three stages that do nothing, on SQLite`, {
    times,
    tasks: { all: ITEMS },
    unit: 'items',
    shares: { share: { of: 'limit', head: '× limit' } },
    names: { limit: 'SQL by hand, 500 items of each stage per commit' },
    notes: { redrive: 'every attempt on record' },
    target: { row: 'redrive', key: 'share', min: 0.5 },
  })
}

const CONCURRENCY = 100

/** Stages that wait. At best, each starts its next item the moment one has ended. */
async function waits(waitMs, seconds, min) {
  const ideal = (CONCURRENCY * 1000) / waitMs
  const count = ideal * (isShort ? seconds / 5 : seconds)
  const wait = name => stage(name, item => sleep(waitMs, item), { concurrency: CONCURRENCY })
  const waiting = pipeline('waiting', wait('fetch'), wait('embed'), wait('filter'))
  const measured = async store => {
    const items = Array.from({ length: count }, (_, n) => n)
    redrive.expectAll(await waiting.run(items, { store }), count)
  }
  const { redrive: times } = await timeRounds({ redrive: { open: redrive.openFile, measured } }, isShort ? 1 : 3)
  const rate = count / times.toSorted((a, b) => a - b)[times.length >> 1]
  const title = `${count} items through three stages that wait ${waitMs} ms each, ${CONCURRENCY} at once, on SQLite`
  console.error(`  ${title}`)
  return {
    title,
    columns: [
      { key: 'rate', head: 'items per second', digits: 0 },
      { key: 'share', head: '× ideal', digits: 2 },
    ],
    rows: [
      { name: 'ideal', rate: ideal, share: 1 },
      { name: 'redrive', rate, share: rate / ideal },
    ],
    target: { row: 'redrive', key: 'share', min },
  }
}

const figures = [await noOps(), await waits(100, 10, 0.9), await waits(10, 5, 0.8)]
console.log(JSON.stringify(figures))
