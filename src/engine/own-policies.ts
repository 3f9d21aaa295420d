import { extendPolicy, hashJson, type Policy, type PolicyInput } from '../policy/index.js'
import type { ClaimedTask } from '../store/internal.js'
import type { WorkKind } from './work-kind.js'

/** If there are more of them, all are forgotten, and made again. */
const MAX_KNOWN = 1000

/** The policy of a task: that of its kind, with the fields that are its own. A text that cannot be read changes nothing. */
export function policyWith(policy: Policy, own: string | undefined): Policy {
  if (own === undefined) return policy
  try {
    return extendPolicy(policy, JSON.parse(own) as PolicyInput)
  } catch {
    // The store was damaged, and `audit verify` says so. A newer release may also know more fields.
    return policy
  }
}

/** The kinds of tasks that have fields of a policy of their own, each with the policy that decides on them. */
export class OwnPolicies {
  readonly #keep: (hash: string, policy: Policy) => Promise<unknown>
  readonly #known = new Map<WorkKind, Map<string, WorkKind>>()
  #count = 0

  /** `keep` brings a policy to the store, so that its decisions can be recomputed. */
  constructor(keep: (hash: string, policy: Policy) => Promise<unknown>) {
    this.#keep = keep
  }

  /** Brings the policies of claimed tasks to the store, so that they may start. Those that are known cost nothing. */
  async learn(tasks: readonly ClaimedTask[], kindOf: (task: ClaimedTask) => WorkKind): Promise<void> {
    if (this.#count > MAX_KNOWN) {
      this.#known.clear()
      this.#count = 0
    }
    for (const task of tasks) {
      const kind = kindOf(task)
      if (task.policy === undefined || this.#known.get(kind)?.has(task.policy)) continue
      const { policy, policyHash } = withOwn(kind, task.policy)
      await this.#keep(policyHash, policy)
      this.kindOf(kind, task)
    }
  }

  /** The kind of a task, with the policy that decides on it. */
  kindOf(kind: WorkKind, { policy: own }: Pick<ClaimedTask, 'policy'>): WorkKind {
    if (own === undefined) return kind
    const known = this.#known.get(kind) ?? new Map<string, WorkKind>()
    const found = known.get(own)
    if (found !== undefined) return found
    const made = withOwn(kind, own)
    this.#known.set(kind, known.set(own, made))
    this.#count++
    return made
  }
}

function withOwn(kind: WorkKind, own: string): WorkKind {
  const policy = policyWith(kind.policy, own)
  return { ...kind, policy, policyHash: hashJson(policy) }
}
