import { isEncoded, type KindCodec } from '../../codec/internal.js'
import type { TaskRecord } from '../../store/index.js'
import {
  type OperationMember,
  type OperationRecord,
  type PayloadEdit,
  type PayloadPatch,
  patchedPayload,
  type StoreContract,
} from '../../store/internal.js'
import { failureText } from '../../telemetry/index.js'
import type { PayloadCheck } from '../work-kind.js'
import { madePayloadProblem } from './made-payload.js'

/** Why a member is left alone: it would be dead again at once. */
export const PAYLOAD_INVALID = 'payload_invalid'

/** How the payloads of a kind are read and checked. */
interface PayloadRules {
  readonly check?: PayloadCheck | undefined
  readonly codec?: KindCodec | undefined
}

/** The rules for payloads by kind. */
export type PayloadChecks = ReadonlyMap<string, PayloadRules>

/** The rules of those kinds that have any. */
export function payloadChecks(kinds: readonly ({ readonly kind: string } & PayloadRules)[]): PayloadChecks {
  const ruled = kinds.filter(({ check, codec }) => (check ?? codec) !== undefined)
  return new Map(ruled.map(({ kind, check, codec }) => [kind, { check, codec }]))
}

/** A payload, decoded, before a dead letter is moved and after. */
export interface MovedPayload {
  readonly before: string
  readonly after: string
}

/** The payload that a dead letter would run with if it was moved, or the problem with it. */
export async function payloadAfter(
  letter: Pick<TaskRecord, 'kind' | 'payload'>,
  patch: PayloadPatch | undefined,
  checks: PayloadChecks,
): Promise<MovedPayload | { readonly problem: string }> {
  const { kind, payload } = letter
  const decoded = decodedPayload(payload, checks.get(kind)?.codec)
  if ('problem' in decoded) return decoded
  const { before } = decoded
  const patched = patch === undefined ? { payload: before } : patchedPayload(before, patch)
  if ('problem' in patched) return patched
  const after = patched.payload
  const problem = await replacementProblem({ kind, payload: before }, after, checks)
  return problem === undefined ? { before, after } : { problem }
}

function decodedPayload(
  payload: string,
  codec: KindCodec | undefined,
): { readonly before: string } | { readonly problem: string } {
  if (codec === undefined) {
    const problem = "it is encoded, and there is no codec for it here. Pass the tasks that have the 'codec'"
    return isEncoded(payload) ? { problem } : { before: payload }
  }
  try {
    return { before: codec.decode(payload, 'payload', '') }
  } catch (failure) {
    return { problem: failureText(failure) }
  }
}

/** The encoded payloads of members of a redrive as its patch changes them: a store cannot decode them. */
export async function encodedEdits(
  store: Pick<StoreContract, 'payloads' | 'get'>,
  { settings: { patch } }: Pick<OperationRecord, 'settings'>,
  ids: readonly string[],
  checks: PayloadChecks,
): Promise<readonly PayloadEdit[]> {
  if (patch === undefined) return []
  const edits: PayloadEdit[] = []
  for (let start = 0; start < ids.length; start += AT_ONCE) {
    const batch = ids.slice(start, start + AT_ONCE)
    for (const [index, payload = ''] of (await store.payloads(batch)).entries()) {
      const task = isEncoded(payload) ? await store.get(batch[index] ?? '') : undefined
      const edit = task && (await encodedEdit(task, patch, checks))
      if (edit !== undefined) edits.push(edit)
    }
  }
  return edits
}

async function encodedEdit(
  { id, kind, payload }: TaskRecord,
  patch: PayloadPatch,
  checks: PayloadChecks,
): Promise<PayloadEdit | undefined> {
  const codec = checks.get(kind)?.codec
  const moved = await payloadAfter({ kind, payload }, patch, checks)
  if (codec === undefined || 'problem' in moved) return undefined
  return {
    id,
    before: payload,
    after: moved.after === moved.before ? payload : codec.encode(moved.after, 'payload', id),
  }
}

/** Checks a payload that is to replace the one of a task. Resolves with the problem, or `undefined`. */
export async function replacementProblem(
  { kind, payload: before }: Pick<TaskRecord, 'kind' | 'payload'>,
  after: string,
  checks: PayloadChecks,
): Promise<string | undefined> {
  const check = checks.get(kind)?.check
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
