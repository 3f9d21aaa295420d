import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/**
 * Seconds that contestants take in rounds in which they take turns, each on a file of its own. A contestant is
 * `{ open, measured }`. The first round is the warm-up.
 */
export async function timeRounds(contestants, rounds) {
  const times = Object.fromEntries(Object.keys(contestants).map(name => [name, []]))
  for (let round = 0; round <= rounds; round++) {
    for (const [name, { open, measured }] of Object.entries(contestants)) {
      const seconds = await withFile(open, measured)
      if (round > 0) times[name].push(seconds)
    }
  }
  return times
}

/** Opens a store on a file of its own. Returns the seconds that its use takes. */
export async function withFile(open, use) {
  const folder = mkdtempSync(join(tmpdir(), 'redrive-bench-'))
  const store = await open(join(folder, 'pipelines.db'))
  try {
    const start = performance.now()
    await use(store)
    return (performance.now() - start) / 1000
  } finally {
    await store.close()
    rmSync(folder, { recursive: true })
  }
}
