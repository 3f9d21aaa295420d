import { type Outages, persist, UNTIL_ANSWERED } from '../../attempt/index.js'
import { canonicalJson, hashJson, type Policy } from '../../policy/index.js'
import { quoted } from '../../policy/internal.js'
import { StoreBusyError } from '../../store/index.js'
import { type StepRecord, type StepState, type StoreContract, stepRecord } from '../../store/internal.js'
import type { Clock } from '../../time/index.js'
import { warnLocked } from '../warn-locked.js'

/** A claim of a task, as a record of its steps has to present it. */
interface Fence {
  readonly id: string
  readonly token: string
}

/** The steps that the store has on record. Asks a store that is away until it answers, or the signal aborts. */
export class StepRecords {
  readonly #store: Pick<StoreContract, 'steps' | 'recordStep' | 'policies'>
  readonly #clock: Clock
  readonly #outages: Outages
  /** The hashes of policies that the store has. */
  readonly #policies = new Set<string>()

  constructor(store: Pick<StoreContract, 'steps' | 'recordStep' | 'policies'>, clock: Clock, outages: Outages) {
    this.#store = store
    this.#clock = clock
    this.#outages = outages
  }

  /** The steps of a task by name. */
  async of(id: string, signal: () => AbortSignal): Promise<ReadonlyMap<string, StepRecord>> {
    const rows = await this.#ask(() => this.#store.steps(id), signal)
    return new Map(rows.map(row => [row.name, stepRecord(row)]))
  }

  /** Records a step. Returns whether the claim still holds; otherwise nothing is recorded. */
  record({ id, token }: Fence, step: StepRecord, signal: () => AbortSignal): Promise<boolean> {
    const { name, isDone, result, ...rest } = step
    const state: StepState = rest
    const recording = { id, token, name, isDone, result, state: JSON.stringify(state) }
    const onLocked = (failure: unknown) => {
      const step = `The step ${quoted(name)} of the task ${quoted(id)}`
      warnLocked(`${step} cannot be recorded yet; still trying.`, failure)
    }
    return this.#ask(() => this.#store.recordStep(recording), signal, onLocked)
  }

  /** Keeps the policy that decides on a step, so that its decisions can be recomputed. Returns its hash. */
  async keep(policy: Policy, signal: () => AbortSignal): Promise<string> {
    const hash = hashJson(policy)
    if (this.#policies.has(hash)) return hash
    await this.#ask(() => this.#store.policies.keep(hash, canonicalJson(policy)), signal)
    this.#policies.add(hash)
    return hash
  }

  /**
   * A signal costs as much as a record in memory, so it is made only for a store that is away. A task that another transaction
   * holds is no outage: the store answers for all others.
   */
  async #ask<T>(ask: () => Promise<T>, signal: () => AbortSignal, onLocked?: (failure: unknown) => void): Promise<T> {
    let first: Promise<T> | undefined = ask()
    try {
      return await first
    } catch (failure) {
      const isLocked = onLocked !== undefined && failure instanceof StoreBusyError
      if (isLocked) onLocked(failure)
      const next = () => {
        const answer = first ?? ask()
        first = undefined
        return answer
      }
      const outages = isLocked ? undefined : this.#outages
      return persist(next, UNTIL_ANSWERED, { clock: this.#clock, outages, signal: signal() })
    }
  }
}
