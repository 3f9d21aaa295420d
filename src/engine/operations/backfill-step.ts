import {
  HAS_RUN,
  type OpenSlot,
  type OperationRecord,
  type OperationStep,
  type SlotRecord,
  type SlotSet,
  type StoreContract,
  slotRunId,
  type Timetable,
} from '../../store/internal.js'
import { loadTimetables } from '../load-timetables.js'

/** Why a slot is left alone: there is a task with the id of its run, such as one that was cancelled before it began. */
const RUN_EXISTS = 'run_exists'

/** How many slots are looked at in a step, and started in its transaction. */
const BATCH = 500

type SlotStore = Pick<StoreContract, 'schedules' | 'payloads'>

/** The slots of a page: those that may run, each with its record if there is one, and the number of the others by reason. */
export interface SlotPage {
  readonly open: readonly (OpenSlot & { readonly record: SlotRecord | undefined })[]
  readonly refused: Readonly<Record<string, number>>
  /** The last slot that was looked at; `undefined` if there are no more. */
  readonly last: number | undefined
}

/** Looks at the slots of a schedule after a time and before another one. */
export async function readSlots(
  store: SlotStore,
  schedule: string,
  table: Timetable,
  { after, to, limit = BATCH }: { readonly after: number; readonly to: number; readonly limit?: number },
): Promise<SlotPage> {
  const slots: number[] = []
  let slot = table.next(after)
  for (; slot !== undefined && slot < to && slots.length < limit; slot = table.next(slot)) slots.push(slot)
  const [first, last] = [slots[0], slots.at(-1)]
  if (first === undefined || last === undefined) return { open: [], refused: {}, last: undefined }
  const records = await recordsOf(store, schedule, first, last)
  const isOpen = (slot: number) => records.get(slot)?.end !== 'ran'
  const notRun = slots.filter(isOpen)
  const payloads = await store.payloads(notRun.map(slot => slotRunId(schedule, slot)))
  const open = notRun.filter((_, n) => payloads[n] === undefined)
  const counts = { [HAS_RUN]: slots.length - notRun.length, [RUN_EXISTS]: notRun.length - open.length }
  return {
    open: open.map(slot => ({ slot, localTime: table.localTime(slot), record: records.get(slot) })),
    refused: Object.fromEntries(Object.entries(counts).filter(([, count]) => count > 0)),
    last: slot === undefined || slot >= to ? undefined : last,
  }
}

/** The slots of a span that are on record. */
async function recordsOf(
  store: SlotStore,
  schedule: string,
  first: number,
  last: number,
): Promise<ReadonlyMap<number, SlotRecord>> {
  const records = new Map<number, SlotRecord>()
  for (let after: number | undefined = first - 1; after !== undefined && after < last; ) {
    const page: readonly SlotRecord[] = await store.schedules.slots(schedule, after, BATCH)
    for (const record of page) records.set(record.slot, record)
    after = page.length < BATCH ? undefined : page.at(-1)?.slot
  }
  return records
}

/** Starts the runs of the next slots of a backfill, which ends where its schedule is another one by now. */
export async function backfillStep(
  store: SlotStore,
  { status, progress, settings }: OperationRecord,
  { schedule: name, generation, from, to }: SlotSet,
  { limit, runs }: { readonly limit: number; readonly runs: readonly string[] },
): Promise<Omit<OperationStep, 'leaseMs'>> {
  const schedule = await store.schedules.get(name)
  if (schedule?.generation !== generation) {
    const what = schedule === undefined ? 'was removed' : 'was changed'
    return { status: 'stopped', reason: `The schedule '${name}' ${what}. Backfill it anew.`, progress }
  }
  const table = (await loadTimetables())(schedule)
  const after = progress.after === undefined ? from - 1 : Number(progress.after)
  const page = await readSlots(store, name, table, { after, to, limit: Math.min(limit, BATCH) })
  const refused: Record<string, number> = { ...progress.refused }
  for (const [reason, count] of Object.entries(page.refused)) refused[reason] = (refused[reason] ?? 0) + count
  const started = page.open.map(({ slot }) => slotRunId(name, slot))
  return {
    status,
    slots: page.open.map(({ slot, localTime }) => ({ slot, localTime })),
    progress: {
      ...progress,
      refused,
      isRead: page.last === undefined,
      ...(page.last !== undefined && { after: String(page.last) }),
      ...(settings.atOnce !== undefined && { runs: [...runs, ...started] }),
    },
  }
}

/** The runs among these that have not ended. */
export async function unendedRuns(store: Pick<StoreContract, 'get'>, runs: readonly string[] = []): Promise<string[]> {
  const tasks = await Promise.all(runs.map(run => store.get(run)))
  return tasks.flatMap(task => (task?.status === 'waiting' || task?.status === 'running' ? [task.id] : []))
}
