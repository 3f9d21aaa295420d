import type { TaskRecord } from '../../store/index.js'
import {
  type OperationMember,
  type OperationRecord,
  type PayloadPatch,
  patchedPayload,
  type StoreContract,
} from '../../store/internal.js'
import type { PayloadCheck } from '../work-kind.js'
import { madePayloadProblem } from './made-payload.js'

/** Why a member is left alone: it would be dead again at once. */
export const PAYLOAD_INVALID = 'payload_invalid'

/** The checks of payloads by kind. */
export type PayloadChecks = ReadonlyMap<string, PayloadCheck>

/** The checks of those kinds that have one. */
export function payloadChecks(
  kinds: readonly { readonly kind: string; readonly check?: PayloadCheck | undefined }[],
): PayloadChecks {
  return new Map(kinds.flatMap(({ kind, check }) => (check === undefined ? [] : [[kind, check] as const])))
}

/** The payload that a dead letter would run with if it was moved, or the problem with it. */
export async function payloadAfter(
  letter: Pick<TaskRecord, 'kind' | 'payload'>,
  patch: PayloadPatch | undefined,
  checks: PayloadChecks,
): Promise<{ readonly payload: string } | { readonly problem: string }> {
  const { payload } = letter
  const after = patch === undefined ? { payload } : patchedPayload(payload, patch)
  if ('problem' in after) return after
  const problem = await replacementProblem(letter, after.payload, checks)
  return problem === undefined ? after : { problem }
}

/** Checks a payload that is to replace the one of a task. Resolves with the problem, or `undefined`. */
export async function replacementProblem(
  { kind, payload: before }: Pick<TaskRecord, 'kind' | 'payload'>,
  after: string,
  checks: PayloadChecks,
): Promise<string | undefined> {
  const check = checks.get(kind)
  return madePayloadProblem(kind, before, after) ?? (check && (await problemOf(after, check)))
}

async function problemOf(payload: string, check: PayloadCheck) {
  let value: unknown
  try {
    value = JSON.parse(payload)
  } catch {
    return 'it is not JSON'
  }
  return check(value)
}

/** How many payloads are read at once. */
const AT_ONCE = 50

/** The members of a redrive that would be dead again at once, as far as there are checks for their kinds. */
export async function invalidMembers(
  store: Pick<StoreContract, 'payloads'>,
  { act, settings: { patch } }: Pick<OperationRecord, 'act' | 'settings'>,
  members: readonly OperationMember[],
  checks: PayloadChecks,
): Promise<ReadonlySet<string>> {
  const invalid = new Set<string>()
  const checked = members.filter(({ kind }) => act === 'redrive' && (patch !== undefined || checks.has(kind)))
  for (let start = 0; start < checked.length; start += AT_ONCE) {
    const batch = checked.slice(start, start + AT_ONCE)
    const payloads = await store.payloads(batch.map(({ id }) => id))
    for (const [index, { id, kind }] of batch.entries()) {
      const payload = payloads[index]
      if (payload !== undefined && 'problem' in (await payloadAfter({ kind, payload }, patch, checks))) invalid.add(id)
    }
  }
  return invalid
}
