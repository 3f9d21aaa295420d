import { OptionError } from '../policy/index.js'
import { quoted } from '../policy/internal.js'
import type { Lane } from '../store/index.js'
import { pipelineOf, type Room } from '../store/internal.js'
import { OwnRoom } from './own-room.js'
import type { WorkKind } from './work-kind.js'

/** The places of a worker: one room that plain tasks share, and one for each kind of work that has places of its own. */
export class Rooms {
  /** The rooms of one kind each. Of stages, later ones first: items that are nearly done go before those that have just begun. */
  readonly own: readonly OwnRoom[]
  /** The pipelines whose stages it has. */
  readonly pipelines: ReadonlySet<string>
  readonly #shared: ReadonlyMap<string, WorkKind>
  /** The rooms of one kind each, by its kind in the store, then by stage. */
  readonly #byKind = new Map<string, Map<string | undefined, OwnRoom>>()
  #concurrency = 0
  readonly #categories: readonly string[] | undefined
  /** The slots that plain tasks of a kind have to themselves. */
  readonly #reserve: ReadonlyMap<string, number>

  constructor(
    kinds: readonly WorkKind[],
    concurrency: number,
    categories: readonly string[] | undefined,
    reserve: Readonly<Record<string, number>> = {},
  ) {
    const isWanted = ({ stage }: WorkKind) => stage === undefined || categories?.includes(stage) !== false
    const wanted = kinds.filter(isWanted)
    const names = wanted.map(nameOf)
    if (new Set(names).size < names.length) throw new OptionError('tasks', twice(names))
    const isFirst = ({ kind, stage }: WorkKind) => kinds.find(each => each.kind === kind)?.stage === stage
    this.own = wanted
      .flatMap(kind => (kind.places === undefined ? [] : [new OwnRoom(kind, kind.places, isFirst(kind))]))
      .reverse()
    for (const room of this.own) this.#add(room)
    this.pipelines = new Set(wanted.filter(({ stage }) => stage !== undefined).map(pipelineOf))
    this.#shared = new Map(wanted.filter(({ places }) => places === undefined).map(kind => [kind.kind, kind]))
    this.#categories = categories
    this.#reserve = new Map(Object.entries(reserve))
    this.resize(concurrency)
  }

  /** Changes how many tasks it runs at once, other than in rooms of one kind. */
  resize(concurrency: number): void {
    if (!(Number.isInteger(concurrency) && concurrency >= 1))
      throw new OptionError('concurrency', `'concurrency' must be a whole number, 1 or more, got ${concurrency}.`)
    checkReserve(this.#reserve, this.kinds, concurrency)
    this.#concurrency = this.#shared.size === 0 && this.own.length > 0 ? 0 : concurrency
  }

  /**
   * The number of ended attempts that are not on record yet, above which a worker claims no more. Tasks have two for each slot: one batch is
   * written while the next collects. Items have one: of more, the places of their next stage could not keep all, and all
   * that come later would have to wait behind the rest.
   */
  get maxUnsettled(): number {
    return this.own.reduce(
      (sum, { stage, slots }) => sum + (stage === undefined ? 2 * slots : slots),
      2 * this.#concurrency,
    )
  }

  /** Whether no room of one kind has a task, or is to get one. */
  get areOwnEmpty(): boolean {
    return this.own.every(({ isEmpty }) => isEmpty)
  }

  get kinds(): readonly WorkKind[] {
    return [...this.#shared.values(), ...this.own.map(({ kind }) => kind)]
  }

  /** The room of one kind that a task belongs to; `undefined` if its kind shares the places of the worker. */
  ownRoom({ kind, category }: Pick<Lane, 'kind' | 'category'>): OwnRoom | undefined {
    const rooms = this.#byKind.get(kind)
    return rooms?.get(category) ?? rooms?.get(undefined)
  }

  #add(room: OwnRoom): void {
    const rooms = this.#byKind.get(room.kind.kind) ?? new Map<string | undefined, OwnRoom>()
    this.#byKind.set(room.kind.kind, rooms.set(room.stage, room))
  }

  /** The kind of a task that shares the places of the worker. */
  sharedKind(task: Lane): WorkKind {
    const kind = this.#shared.get(task.kind)
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
    let [limit, sharedRunning] = [0, running]
    for (const { kind, stage, places, running: inRoom } of this.own) {
      sharedRunning -= inRoom
      limit += places
      const categories = stage === undefined ? this.#categories : [stage]
      if (places > 0) rooms.push({ kinds: [kind.kind], categories, limit: places })
    }
    const free = Math.max(0, this.#concurrency - sharedRunning)
    let shared = free
    for (const [kind, slots] of this.#reserve) {
      const own = Math.min(slots - runningOf(kind), shared)
      if (own <= 0) continue
      shared -= own
      rooms.push({ kinds: [kind], categories: this.#categories, limit: own })
    }
    if (shared > 0) rooms.push({ kinds: [...this.#shared.keys()], categories: this.#categories, limit: shared })
    return { rooms, limit: limit + free }
  }

  /** Whether a claim filled the slots that a kind has to itself, so that more of its tasks may run in the others. */
  hasFilledReserve(rooms: readonly Room[], tasks: readonly Lane[]): boolean {
    return rooms.some(({ kinds: [kind = '', another], limit }) => {
      if (another !== undefined || !this.#reserve.has(kind)) return false
      return tasks.filter(task => task.kind === kind).length === limit
    })
  }
}

function checkReserve(reserve: ReadonlyMap<string, number>, kinds: readonly WorkKind[], concurrency: number): void {
  const tasks = new Map(kinds.filter(({ stage }) => stage === undefined).map(kind => [kind.kind, kind]))
  let sum = 0
  for (const [kind, slots] of reserve) {
    const task = tasks.get(kind)
    if (task?.places !== undefined) {
      const problem = `'reserve' names the kind ${quoted(kind)}, which has slots of its own: 'together' says how many.`
      throw new OptionError('reserve', `${problem} Leave it out.`)
    }
    if (task === undefined)
      throw new OptionError('reserve', `'reserve' names the kind ${quoted(kind)}, which is no task of this worker.`)
    if (!(Number.isInteger(slots) && slots >= 1))
      throw new OptionError('reserve', `'reserve' of ${quoted(kind)} must be a whole number, 1 or more, got ${slots}.`)
    sum += slots
  }
  if (sum > concurrency)
    throw new OptionError('reserve', `'reserve' asks for ${sum} slots, but 'concurrency' is ${concurrency}.`)
  const starved = [...tasks.values()].find(({ kind, places }) => places === undefined && !reserve.has(kind))?.kind
  if (sum === concurrency && starved !== undefined)
    throw new OptionError('reserve', `'reserve' leaves no slot for tasks of the kind ${quoted(starved)}.`)
}

function nameOf({ kind, stage }: WorkKind): string {
  return stage === undefined ? kind : `${kind}/${stage}`
}

function twice(names: readonly string[]): string {
  return `Two of the tasks have the kind '${names.find((name, index) => names.indexOf(name) !== index)}'.`
}
