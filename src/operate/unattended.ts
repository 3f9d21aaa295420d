import { type Policy, policy as parsePolicy } from '../policy/index.js'
import { isRunBy, type KindStats, type Lifetime, type StoreContract } from '../store/internal.js'

/** Waiting tasks that no live worker runs, and that any worker gives up once their time to live is over. */
export interface UnattendedTasks {
  /** The name given to `defineTask`. */
  readonly kind: string
  /** Their category; empty if there is none. */
  readonly category: string
  /** How many of them wait. */
  readonly waiting: number
  /** Their time to live. It counts from when a task was first due, or last redriven. */
  readonly ttlMs: number
}

type Tasks = Pick<KindStats, 'kind' | 'category'>

/** Those of these tasks that no live worker runs, if they have a time to live. */
export async function unattended(
  store: Pick<StoreContract, 'lifetimes' | 'policies' | 'workers'>,
  kinds: readonly KindStats[],
): Promise<UnattendedTasks[]> {
  const [lifetimes, workers] = await Promise.all([store.lifetimes.list(), store.workers()])
  const alone = kinds.filter(part => part.waiting > 0 && !workers.some(worker => isRunBy(worker, part)))
  const found = alone.map(async ({ kind, category, waiting }) => {
    const ttlMs = (await declaredPolicy(store, lifetimes, { kind, category }))?.ttl
    return ttlMs === undefined ? [] : [{ kind, category, waiting, ttlMs }]
  })
  return (await Promise.all(found)).flat()
}

/** The policy with the time to live of a kind, as the last worker that ran it declared it; `undefined` if there is none. */
export async function declaredPolicy(
  store: Pick<StoreContract, 'policies'>,
  lifetimes: readonly Lifetime[],
  { kind, category }: Tasks,
): Promise<Policy | undefined> {
  const isOf = (one: Lifetime) => one.kind === kind && (one.category ?? category) === category
  return policyOf(store, lifetimes.find(isOf)?.policy)
}

/** The policy of this hash, if the store knows it. */
export async function policyOf(
  store: Pick<StoreContract, 'policies'>,
  hash: string | undefined,
): Promise<Policy | undefined> {
  const json = hash === undefined ? undefined : await store.policies.get(hash)
  return json === undefined ? undefined : parsePolicy(JSON.parse(json))
}
