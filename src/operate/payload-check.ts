import type { OperationMember, Store, TaskReader, TaskRecord } from '../store/index.js'
import type { DeclaredTask } from '../task/index.js'
import { validate } from '../task/internal.js'
import { failureText } from '../telemetry/index.js'
import { getTasks } from './get-tasks.js'
import { pagesOf } from './pages.js'
import { filterOf, type LetterSelection } from './selection.js'

/** The part of a task that says which payloads it takes: `defineTask` and `declareTask` return it. */
export type TaskSchema = Pick<DeclaredTask, 'kind' | 'schema'>

/** Why a member is left alone: it would be dead again at once. */
export const PAYLOAD_INVALID = 'payload_invalid'

/** Dead letters whose payloads were checked against the schemas of their tasks. */
export interface PayloadReport {
  /** How many were checked: the newest, at most 1000. */
  readonly checked: number
  /** How many of them no longer fit. */
  readonly invalid: number
  /** One of those, and what is wrong with it. */
  readonly example: { readonly id: string; readonly problem: string } | null
}

const MAX_CHECKED = 1000
/** Letters of kinds without a schema are passed over. */
const MAX_READ = 10 * MAX_CHECKED

type Schemas = ReadonlyMap<string, NonNullable<TaskSchema['schema']>>

function schemasOf(tasks: readonly TaskSchema[]): Schemas {
  return new Map(tasks.flatMap(({ kind, schema }) => (schema === undefined ? [] : [[kind, schema] as const])))
}

/** What is wrong with a payload; `undefined` if it fits, or if its kind has no schema. */
async function problemOf(
  schemas: Schemas,
  { kind, payload }: Pick<TaskRecord, 'kind' | 'payload'>,
): Promise<string | undefined> {
  const schema = schemas.get(kind)
  if (schema === undefined) return undefined
  try {
    const result = await validate(schema, JSON.parse(payload))
    return 'problem' in result ? result.problem : undefined
  } catch (failure) {
    // A schema that throws, or a payload that is no JSON, would fail its attempt too.
    return failureText(failure)
  }
}

/** Checks the payloads of dead letters against the schemas of their tasks. */
export async function checkPayloads(
  store: Pick<TaskReader, 'get' | 'list'>,
  selection: LetterSelection,
  tasks: readonly TaskSchema[],
): Promise<PayloadReport> {
  const schemas = schemasOf(tasks)
  const report = { checked: 0, invalid: 0, example: null as PayloadReport['example'] }
  let read = 0
  for await (const letter of lettersOf(store, selection)) {
    if (report.checked === MAX_CHECKED || ++read > MAX_READ) break
    if (!schemas.has(letter.kind)) continue
    report.checked++
    const problem = await problemOf(schemas, letter)
    if (problem === undefined) continue
    report.invalid++
    report.example ??= { id: letter.id, problem }
  }
  return report
}

async function* lettersOf(
  store: Pick<TaskReader, 'get' | 'list'>,
  selection: LetterSelection,
): AsyncGenerator<TaskRecord> {
  if ('ids' in selection) {
    for await (const { task } of getTasks(store, selection.ids)) if (task?.status === 'dead') yield task
    return
  }
  for await (const page of pagesOf(page => store.list(filterOf(selection), page))) yield* page
}

/** Says for the driver of an operation which members have a payload that no longer fits. */
export function refusesPayloads(
  store: Pick<Store, 'get'>,
  tasks: readonly TaskSchema[],
): (members: readonly OperationMember[]) => Promise<ReadonlyMap<string, string>> {
  const schemas = schemasOf(tasks)
  return async members => {
    const refused = new Map<string, string>()
    const own = members.filter(({ kind }) => schemas.has(kind)).map(({ id }) => id)
    for await (const { id, task } of getTasks(store, own))
      if (task !== undefined && (await problemOf(schemas, task)) !== undefined) refused.set(id, PAYLOAD_INVALID)
    return refused
  }
}
