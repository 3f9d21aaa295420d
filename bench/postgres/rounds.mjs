import pg from 'pg'
import { median } from '../interleave.mjs'

const ROUNDS = 5

/**
 * Seconds that contestants take in rounds in which they take turns, each on a database of its own. A contestant is
 * `{ open, prepare, measured }`; what `measured` returns, if anything, is called when the clock has stopped. The first
 * round is the warm-up.
 */
export async function timeRounds(server, contestants, rounds = ROUNDS) {
  const times = Object.fromEntries(Object.keys(contestants).map(name => [name, []]))
  for (let round = 0; round <= rounds; round++) {
    for (const [name, contestant] of Object.entries(contestants)) {
      const seconds = await timeOnce(server, contestant)
      if (round > 0) times[name].push(seconds)
    }
  }
  return times
}

async function timeOnce(server, { open, prepare, measured }) {
  const url = await server.createDatabase()
  const store = await open(url)
  try {
    await prepare?.(store)
    await settleDown(server)
    const start = performance.now()
    const end = await measured(store)
    const seconds = (performance.now() - start) / 1000
    await end?.()
    return seconds
  } finally {
    await store.close()
  }
}

/** So that nobody pays for what the one before, or its own preparation, left to be written. */
export async function settleDown(server) {
  await query(server.url, 'CHECKPOINT')
}

export async function query(url, sql) {
  const client = new pg.Client(url)
  await client.connect()
  try {
    return (await client.query(sql)).rows
  } finally {
    await client.end()
  }
}

/**
 * A figure of tasks, or other work, per second. `shares` names columns with the row that each compares with: medians over
 * the rounds of the ratio in the same round.
 */
export function rateFigure(title, { times, tasks, unit = 'tasks', shares, names = {}, notes = {}, target }) {
  console.error(`  ${title}`)
  const others = Object.entries(shares)
  const sharesOf = name => others.map(([key, { of }]) => [key, median(ratios(times, tasks, name, of))])
  const rows = Object.entries(times).map(([name, seconds]) => ({
    name: names[name] ?? name,
    rate: (tasks[name] ?? tasks.all) / median(seconds),
    ...Object.fromEntries(sharesOf(name)),
    note: notes[name],
  }))
  const columns = [
    { key: 'rate', head: `${unit} per second`, digits: 0 },
    ...others.map(([key, { head }]) => ({ key, head, digits: 2 })),
  ]
  return { title, columns, rows, target }
}

/** How many times as fast one is as another, round by round. */
export function ratios(times, tasks, name, other) {
  const rate = (of, round) => (tasks[of] ?? tasks.all) / times[of][round]
  return times[name].map((_, round) => rate(name, round) / rate(other, round))
}
