/** No fewer rounds than this; the median of an odd number is one that was measured. */
const ROUNDS = 21
/** A round of one contestant takes this much CPU time, if it can within `MAX_WALL_MS`. */
const ROUND_MS = 80
const MAX_WALL_MS = 400

/**
 * Measures contestants in turn, round after round, each round beginning with another one, so that whatever changes in
 * the machine meanwhile meets all of them. CPU time counts, of all threads, not time on the wall.
 *
 * A contestant is `{ name, call }`; the first is the one that the others are ratios to. A row's `cpuNs` is the median
 * of its rounds, its `ratio` the median of the ratios to the first contestant in the same round.
 */
export async function interleave(contestants, { inFlight = 1 } = {}) {
  const runners = []
  for (const { name, call, note } of contestants) {
    runners.push({ name, note, call, calls: await enoughCalls(call, inFlight), costs: [] })
  }
  for (let round = 0; round < ROUNDS; round++) {
    if (process.stderr.isTTY) process.stderr.write(`\r  round ${round + 1} of ${ROUNDS}`)
    for (let turn = 0; turn < runners.length; turn++) {
      const { call, calls, costs } = runners[(round + turn) % runners.length]
      clearGarbage()
      costs.push((await cpuNs(() => run(call, calls, inFlight))) / calls)
    }
  }
  if (process.stderr.isTTY) process.stderr.write('\n')
  const [{ costs: yardstick }] = runners
  return runners.map(({ name, note, costs }) => ({
    name,
    note,
    cpuNs: median(costs),
    ratio: median(costs.map((cost, round) => cost / yardstick[round])),
  }))
}

/** How many calls fill a round. Finding out is the warm-up as well. */
async function enoughCalls(call, inFlight) {
  await run(call, 20 * inFlight, inFlight)
  for (let calls = inFlight; ; calls *= 2) {
    const startedAt = performance.now()
    const cpuMs = (await cpuNs(() => run(call, calls, inFlight))) / 1e6
    const wallMs = performance.now() - startedAt
    if (cpuMs < ROUND_MS && wallMs < MAX_WALL_MS) continue
    const scale = Math.min(ROUND_MS / cpuMs, MAX_WALL_MS / wallMs)
    return Math.max(1, Math.round((calls * scale) / inFlight)) * inFlight
  }
}

async function run(call, calls, inFlight) {
  if (inFlight === 1) {
    for (let i = 0; i < calls; i++) await call()
    return
  }
  const pending = new Array(inFlight)
  for (let done = 0; done < calls; done += inFlight) {
    for (let i = 0; i < inFlight; i++) pending[i] = call()
    await Promise.all(pending)
  }
}

/**
 * So that nobody pays for the garbage of the one before. Young garbage only: a full collection also throws away what
 * the engine has learnt of the code, and the round would measure how it learns that again.
 */
export function clearGarbage() {
  globalThis.gc({ type: 'minor' })
}

/** The CPU time, user and system, that something takes. */
export async function cpuNs(task) {
  const before = process.cpuUsage()
  await task()
  const { user, system } = process.cpuUsage(before)
  return (user + system) * 1000
}

export function median(values) {
  const sorted = values.toSorted((a, b) => a - b)
  return sorted[Math.floor(sorted.length / 2)]
}
