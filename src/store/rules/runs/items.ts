import { OptionError } from '../../../policy/index.js'
import { quoted } from '../../../policy/internal.js'
import type { Lane } from '../../contract/lane.js'
import type { Chunk } from '../../contract/run-store.js'
import type { NewTask } from '../../contract/task.js'
import type { RunState } from './run-state.js'

/** Begins the kind of every item. Kinds that begin so belong to pipelines. */
const PREFIX = 'pipeline:'

/** The digits of a position in an item's id: ties are broken by the text of the id, so all have the same length. */
const DIGITS = 12

/**
 * The ids of lanes in databases begin here if their tasks are items, so that a task shows by its lane whether it is one:
 * items are pruned with their run, count against its budget, and are written out. No id is given twice.
 */
export const FIRST_RUN_LANE = 2 ** 40

/** Whether the tasks of a lane are items, by its id in a database. */
export function hasItems(lane: number): boolean {
  return lane >= FIRST_RUN_LANE
}

/** The kind of a pipeline's items. */
export function itemKind(pipeline: string): string {
  return `${PREFIX}${pipeline}`
}

/** The pipeline of an item. */
export function pipelineOf({ kind }: Pick<Lane, 'kind'>): string {
  return kind.slice(PREFIX.length)
}

/**
 * Whether a task is an item of a pipeline: then its category is its stage, and its key its run. Also tells of a lane, a
 * selection or a count whether it has to do with items.
 */
export function isItem({ kind = '', key }: Partial<Pick<Lane, 'kind' | 'key'>>): boolean {
  return kind.startsWith(PREFIX) && key !== ''
}

/** The lanes of a run: all that have its kind and key. */
export function lanesOf({ pipeline, id }: Pick<RunState, 'pipeline' | 'id'>): Pick<Lane, 'kind' | 'key'> {
  return { kind: itemKind(pipeline), key: id }
}

/** The lanes of a run, one for each stage. */
export function stageLanes(run: Pick<RunState, 'pipeline' | 'id' | 'stages'>): Lane[] {
  return run.stages.map(category => ({ ...lanesOf(run), category }))
}

/** The id of an item that has none of its own. */
export function itemId(run: string, position: number): string {
  return `${run}:${String(position).padStart(DIGITS, '0')}`
}

/** Whether a task with this id may be an item, before its lane is looked up: the ids of all items have a colon. */
export function mayBeItem(id: string): boolean {
  return id.includes(':')
}

/**
 * The ids of a run's items, as a range: from the first up to the second, which is not part of it. Run ids have no colon, and
 * a semicolon comes right after it. Positions are digits, so the run's last task (`<run>:end:1`) is not among them.
 */
export function itemRange({ id, hasOwnIds }: Pick<RunState, 'id' | 'hasOwnIds'>): readonly [string, string] {
  return [`${id}:`, hasOwnIds ? `${id};` : `${id}::`]
}

/** The items of a chunk as tasks at the first stage. */
export function itemTasks(
  state: RunState,
  { items, position, traceparent }: Chunk,
): (NewTask & { readonly id: string })[] {
  const { kind, key } = lanesOf(state)
  const category = state.stages[0]
  return items.map(({ id, payload, cost }, index) => ({
    kind,
    key,
    ...(category !== undefined && { category }),
    id: state.hasOwnIds ? ownId(state.id, id) : itemId(state.id, position + index),
    payload,
    ...(cost !== undefined && { cost }),
    ...(traceparent !== undefined && { traceparent }),
  }))
}

function ownId(run: string, id: string | undefined): string {
  if (id === undefined)
    throw new OptionError('id', `The run ${quoted(run)} was opened with 'itemId'. Pass the same function to resume().`)
  if (id.startsWith('end:'))
    throw new OptionError('id', `An item's id must not begin with 'end:', got ${quoted(id)}: the run's last task does.`)
  return `${run}:${id}`
}
