import { OptionError } from '../policy/index.js'
import { quoted } from '../policy/internal.js'
import type { Lane } from '../store/index.js'
import { pipelineOf, type Room } from '../store/internal.js'
import { StageRoom } from './stage-room.js'
import type { StagePlaces, WorkKind } from './work-kind.js'

/** The places of a worker: one room that all plain tasks share, and one for each stage of a pipeline. */
export class Rooms {
  /** The stages, later ones first: items that are nearly done go before those that have just begun. */
  readonly stages: readonly StageRoom[]
  readonly #plain: ReadonlyMap<string, WorkKind>
  /** The stages by kind, then by name. */
  readonly #byKind = new Map<string, Map<string, StageRoom>>()
  readonly #concurrency: number
  readonly #categories: readonly string[] | undefined
  /** The slots that plain tasks of a kind have to themselves. */
  readonly #reserve: ReadonlyMap<string, number>

  constructor(
    kinds: readonly WorkKind[],
    concurrency: number,
    categories: readonly string[] | undefined,
    reserve: Readonly<Record<string, number>> = {},
  ) {
    const isWanted = ({ stage }: WorkKind) => stage === undefined || categories?.includes(stage.name) !== false
    const wanted = kinds.filter(isWanted)
    const isFirst = ({ kind }: WorkKind, stage: StagePlaces) => kinds.find(each => each.kind === kind)?.stage === stage
    this.stages = wanted
      .flatMap(kind => (kind.stage === undefined ? [] : [new StageRoom(kind, kind.stage, isFirst(kind, kind.stage))]))
      .reverse()
    for (const room of this.stages) this.#addStage(room)
    this.#plain = new Map(wanted.filter(({ stage }) => stage === undefined).map(kind => [kind.kind, kind]))
    const different = [...this.#byKind.values()].reduce((sum, rooms) => sum + rooms.size, this.#plain.size)
    if (different < wanted.length) throw new OptionError('tasks', twice(wanted))
    this.#concurrency = this.#plain.size === 0 && this.stages.length > 0 ? 0 : concurrency
    this.#categories = categories
    this.#reserve = new Map(Object.entries(reserve))
    checkReserve(this.#reserve, new Set(this.#plain.keys()), concurrency)
  }

  /**
   * The number of ended attempts that are not on record yet, above which a worker claims no more. Plain tasks have two for each slot: one batch is
   * written while the next collects. Items have one: of more, the places of their next stage could not keep all, and all
   * that come later would have to wait behind the rest.
   */
  get maxUnsettled(): number {
    return this.stages.reduce((sum, { slots }) => sum + slots, 2 * this.#concurrency)
  }

  /** Whether no stage has an item, or is to get one. */
  get areStagesEmpty(): boolean {
    return this.stages.every(({ isEmpty }) => isEmpty)
  }

  /** The pipelines that its stages belong to. */
  get pipelines(): ReadonlySet<string> {
    return new Set(this.stages.map(({ kind }) => pipelineOf(kind)))
  }

  get kinds(): readonly WorkKind[] {
    return [...this.#plain.values(), ...this.stages.map(({ kind }) => kind)]
  }

  /** The room of a stage; `undefined` for plain tasks. */
  stage(kind: string, category: string): StageRoom | undefined {
    return this.#byKind.get(kind)?.get(category)
  }

  #addStage(room: StageRoom): void {
    const rooms = this.#byKind.get(room.kind.kind) ?? new Map<string, StageRoom>()
    this.#byKind.set(room.kind.kind, rooms.set(room.name, room))
  }

  /** The kind of a plain task. */
  plainKind(task: Lane): WorkKind {
    const kind = this.#plain.get(task.kind)
    if (kind !== undefined) return kind
    throw new Error(`The store gave out a task of kind '${task.kind}', which was not asked for.`)
  }

  /**
   * The rooms that have places left, and how many in all. `running` counts all attempts, and `runningOf` those of a kind.
   * Slots that are reserved for a kind are a room of its own until it has them; the others are shared by all kinds.
   */
  free(
    running: number,
    runningOf: (kind: string) => number,
  ): { readonly rooms: readonly Room[]; readonly limit: number } {
    const rooms: Room[] = []
    let [limit, plainRunning] = [0, running]
    for (const { kind, name, places, running: inStage } of this.stages) {
      plainRunning -= inStage
      limit += places
      if (places > 0) rooms.push({ kinds: [kind.kind], categories: [name], limit: places })
    }
    const plain = Math.max(0, this.#concurrency - plainRunning)
    let shared = plain
    for (const [kind, slots] of this.#reserve) {
      const own = Math.min(slots - runningOf(kind), shared)
      if (own <= 0) continue
      shared -= own
      rooms.push({ kinds: [kind], categories: this.#categories, limit: own })
    }
    if (shared > 0) rooms.push({ kinds: [...this.#plain.keys()], categories: this.#categories, limit: shared })
    return { rooms, limit: limit + plain }
  }

  /** Whether a claim filled the slots that a kind has to itself, so that more of its tasks may run in the others. */
  hasFilledReserve(rooms: readonly Room[], tasks: readonly Lane[]): boolean {
    return rooms.some(({ kinds: [kind = '', another], limit }) => {
      if (another !== undefined || !this.#reserve.has(kind)) return false
      return tasks.filter(task => task.kind === kind).length === limit
    })
  }
}

function checkReserve(reserve: ReadonlyMap<string, number>, kinds: ReadonlySet<string>, concurrency: number): void {
  let sum = 0
  for (const [kind, slots] of reserve) {
    if (!kinds.has(kind))
      throw new OptionError('reserve', `'reserve' names the kind ${quoted(kind)}, which is no task of this worker.`)
    if (!(Number.isInteger(slots) && slots >= 1))
      throw new OptionError('reserve', `'reserve' of ${quoted(kind)} must be a whole number, 1 or more, got ${slots}.`)
    sum += slots
  }
  if (sum > concurrency)
    throw new OptionError('reserve', `'reserve' asks for ${sum} slots, but 'concurrency' is ${concurrency}.`)
  const starved = [...kinds].find(kind => !reserve.has(kind))
  if (sum === concurrency && starved !== undefined)
    throw new OptionError('reserve', `'reserve' leaves no slot for tasks of the kind ${quoted(starved)}.`)
}

function laneName(kind: string, stage: string): string {
  return `${kind}/${stage}`
}

function twice(kinds: readonly WorkKind[]): string {
  const names = kinds.map(({ kind, stage }) => (stage === undefined ? kind : laneName(kind, stage.name)))
  return `Two of the tasks have the kind '${names.find((name, index) => names.indexOf(name) !== index)}'.`
}
