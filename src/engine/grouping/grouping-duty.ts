import { NO_RULES, PatternRules } from '../../fingerprint/internal.js'
import type { StoreContract } from '../../store/internal.js'
import type { Duty } from '../duties.js'
import { DutyWarnings } from '../duty-warnings.js'
import { regroup } from './regroup.js'

/** The grouping of a store that nobody has gone through: the first version of the algorithm, without rules. */
const FIRST_GROUPING = '1'

const READ_RULES = 'read the rules about failure groups'
const REGROUP = 'regroup what failed before'

/**
 * Keeps the rules about failure groups up to date, and goes through all groups when the rules or the algorithm have changed: once
 * every live worker reports the same, so that two releases never undo each other's moves. The first worker by name does it.
 */
export class GroupingDuty implements Duty {
  readonly #store: StoreContract
  readonly #worker: string
  readonly #warnings = new DutyWarnings()
  #rules = NO_RULES
  #abort = new AbortController()
  #isStopped = false
  #looking: Promise<void> | undefined
  #regrouping: Promise<void> | undefined

  constructor(store: StoreContract, worker: string) {
    this.#store = store
    this.#worker = worker
  }

  /** The rules as of the last heartbeat. */
  get rules(): PatternRules {
    return this.#rules
  }

  /** Loads the rules. Returns the last grouping that all groups were gone through for. */
  async load(): Promise<string> {
    const { rules, regrouped = FIRST_GROUPING } = await this.#store.groups.rules()
    const loaded = new PatternRules(rules)
    if (loaded.grouping !== this.#rules.grouping) {
      this.#rules = loaded
      this.#abort.abort()
    }
    return regrouped
  }

  beat(): void {
    if (this.#isStopped) return
    this.#looking ??= this.#look()
      .then(
        () => this.#warnings.succeeded(READ_RULES),
        // The store is asked again with the next heartbeat.
        failure => this.#warnings.failed(READ_RULES, failure),
      )
      .finally(() => {
        this.#looking = undefined
      })
  }

  async stop(): Promise<void> {
    this.#isStopped = true
    this.#abort.abort()
    await this.#looking
    await this.#regrouping
  }

  async #look(): Promise<void> {
    const regrouped = await this.load()
    if (regrouped === this.#rules.grouping || this.#regrouping !== undefined) return
    const workers = await this.#store.workers()
    const areAgreed = workers.every(({ grouping }) => grouping === this.#rules.grouping)
    if (workers[0]?.name !== this.#worker || !areAgreed || this.#isStopped) return
    this.#regrouping = this.#regroup()
      .then(
        () => this.#warnings.succeeded(REGROUP),
        // Moves that were made stay, and the next heartbeat goes on.
        failure => this.#warnings.failed(REGROUP, failure),
      )
      .finally(() => {
        this.#regrouping = undefined
      })
  }

  async #regroup(): Promise<void> {
    this.#abort = new AbortController()
    const rules = this.#rules
    const { isDone } = await regroup(this.#store, rules, this.#abort.signal)
    if (isDone) await this.#store.groups.regrouped(rules.grouping)
  }
}
