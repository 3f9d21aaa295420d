import { type Environment, report } from '../attempt/index.js'
import type { Policy } from '../policy/index.js'
import { refusal } from '../policy/internal.js'
import type { TaskRecord } from '../store/index.js'
import { isRunBy, type Lifetime, type StoreContract, type WorkerRecord } from '../store/internal.js'
import { followers } from './death.js'
import type { Duty } from './duties.js'
import { DutyWarnings } from './duty-warnings.js'
import { policyWith } from './own-policies.js'
import { taskWork, type WorkKind } from './work-kind.js'

/** Waiting tasks are looked through this often. */
const REST_MS = 60_000
const PAGE = 100
/** A look reads so many pages of a kind at most without giving up a task. The next one goes on behind them. */
const MAX_PAGES = 20

const EXPIRE = 'give up tasks that no worker runs'

/**
 * Gives up waiting tasks whose time to live is over while no live worker runs their kind. Workers that do run it give up such
 * tasks when they claim them. Every worker declares its kinds, and the first worker by name looks after those of the others.
 */
export class ExpiryDuty implements Duty {
  readonly #store: StoreContract
  readonly #worker: string
  readonly #kinds: readonly WorkKind[]
  readonly #environment: Environment
  readonly #warnings = new DutyWarnings()
  /** The pages after which to go on. */
  readonly #places = new Map<string, string>()
  #lookedAt = -Infinity
  #isStopped = false
  #looking: Promise<void> | undefined

  constructor(store: StoreContract, worker: string, kinds: readonly WorkKind[], environment: Environment) {
    this.#store = store
    this.#worker = worker
    this.#kinds = kinds
    this.#environment = environment
  }

  /** Tells the store of the kinds that it runs. The dead letters of some go elsewhere, so that no other worker may make them. */
  async declare(): Promise<void> {
    const kinds = this.#kinds.map(({ kind, stage, policy, policyHash, hasOwnTtl = false, onDead, bury }) => {
      const isMortal = (policy.ttl !== undefined || hasOwnTtl) && bury === undefined
      // A person may make a dead letter of any, and has to know what follows.
      return { kind, category: stage, policy: isMortal || onDead !== undefined ? policyHash : undefined, onDead }
    })
    if (kinds.length > 0) await this.#store.lifetimes.declare(kinds)
  }

  beat(): void {
    const now = this.#environment.clock.monotonic()
    if (this.#isStopped || this.#looking !== undefined || now - this.#lookedAt < REST_MS) return
    this.#lookedAt = now
    this.#looking = this.#look()
      .then(
        () => this.#warnings.succeeded(EXPIRE),
        // The store is asked again after the rest.
        failure => {
          this.#places.clear()
          this.#warnings.failed(EXPIRE, failure)
        },
      )
      .finally(() => {
        this.#looking = undefined
      })
  }

  async stop(): Promise<void> {
    this.#isStopped = true
    await this.#looking
  }

  async #look(): Promise<void> {
    const lifetimes = await this.#store.lifetimes.list()
    if (lifetimes.length === 0) return
    const workers = await this.#store.workers()
    if (workers[0]?.name !== this.#worker) return
    for (const lifetime of lifetimes) await this.#lookThrough(lifetime, workers)
  }

  async #lookThrough(lifetime: Lifetime, workers: readonly WorkerRecord[]): Promise<void> {
    const { kind, category } = lifetime
    const running = workers.filter(worker => isRunBy(worker, { kind, category }))
    if (running.some(({ categories }) => category !== undefined || categories === undefined)) return
    const text = await this.#store.policies.get(lifetime.policy)
    if (text === undefined) return
    const policy = JSON.parse(text) as Policy
    const name = JSON.stringify([kind, category])
    const filter = { kind, ...(category !== undefined && { category }), status: 'waiting' } as const
    for (let pages = 0; pages < MAX_PAGES && !this.#isStopped; ) {
      const after = this.#places.get(name)
      const { items, next } = await this.#store.list(filter, { limit: PAGE, ...(after !== undefined && { after }) })
      const expired = await this.#expire(
        items.filter(task => !running.some(worker => isRunBy(worker, task))),
        policy,
        lifetime.onDead,
      )
      if (expired === 0) pages++
      if (next === undefined) {
        this.#places.delete(name)
        return
      }
      this.#places.set(name, next)
    }
  }

  /** Gives up those whose time to live is over. Returns how many. */
  async #expire(tasks: readonly TaskRecord[], policy: Policy, onDead: string | undefined): Promise<number> {
    const now = await this.#store.now()
    const isOver = (task: TaskRecord) =>
      (task.nextAttemptAt ?? now) <= now && refusal(policyWith(policy, task.policy), task, now) === 'ttl_expired'
    const over = tasks.filter(isOver)
    if (over.length === 0) return 0
    const expired = new Set(
      await this.#store.lifetimes.expire(
        over.map(task => {
          const { id, changedAt } = task
          return { id, changedAt, ifDead: followers(onDead, { ...task, token: String(changedAt) }, 'ttl_expired') }
        }),
      ),
    )
    for (const task of over) if (expired.has(task.id)) this.#tell(task, policy, now)
    return expired.size
  }

  #tell(task: TaskRecord, policy: Policy, now: number): void {
    const { id, traceparent } = task
    const work = () => taskWork(task)
    const plan = {
      seed: id,
      policy: policyWith(policy, task.policy),
      history: task,
      now: () => now,
      work,
      traceparent,
      isFirst: false,
    }
    report(plan, { type: 'refused', reason: 'ttl_expired' }, 0, this.#environment)
  }
}
