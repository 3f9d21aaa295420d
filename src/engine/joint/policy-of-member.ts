import { hashJson, type Policy } from '../../policy/index.js'

/** The policy of a task that is called together with others. The timeout is that of a call: halving takes several. */
export function policyOfMember({ timeout: _, ...policy }: Policy): {
  readonly policy: Policy
  readonly policyHash: string
} {
  return { policy, policyHash: hashJson(policy) }
}
