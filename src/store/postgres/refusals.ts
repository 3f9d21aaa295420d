import { type Answers, learned, type SharedState } from '../rules/shared-limit.js'
import type { Database } from './database.js'

/**
 * Works out which pace the refusals on record have taught, once their settlements are committed. Their limits are held by
 * then, so nothing starts meanwhile. If a process dies in between, the next refusal finds the earlier ones.
 */
export function learnFromRefusals(database: Database): Promise<void> {
  return database.together(async ({ call }) => {
    const refused = JSON.parse(String(await call('take_refused', []))) as readonly RefusedLimit[]
    if (refused.length === 0) return
    const states = refused.map(({ id, state, answers }) => ({ id, state: learned(state, answers) }))
    await call('save_shared_states', [JSON.stringify(states)])
  })
}

interface RefusedLimit {
  readonly id: number
  readonly state: SharedState
  readonly answers: readonly Answers[]
}
