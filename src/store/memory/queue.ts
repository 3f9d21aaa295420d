import type { ClaimRequest, Room } from '../contract/claim.js'
import {
  isCovering,
  noteStarts,
  type OpenGate,
  partGave,
  placesInPart,
  roomParts,
} from '../rules/budgets/claim-gates.js'
import { isInRoom, placesIn, RoomTurns } from '../rules/room-turns.js'
import type { MemoryHeap } from './heap.js'
import type { MemoryLane } from './lane.js'
import { MemoryLanes } from './lanes.js'
import type { MemorySharedLimit } from './shared.js'
import { budgetedHeap, isDueBefore, type MemoryTask, scheduledHeap } from './task.js'

/** The waiting tasks of the memory store: scheduled until they are due, then ready in their lanes. */
export class MemoryQueue {
  readonly lanes = new MemoryLanes()
  /** By kind, so that a claim touches only the kinds that it asks for. */
  readonly #scheduled = new Map<string, MemoryHeap<MemoryTask>>()
  /** Retries under a budget, by its id. */
  readonly #budgeted = new Map<number, MemoryHeap<MemoryTask>>()
  readonly #turns = new RoomTurns()

  /** Adds a waiting task. With `keepsPlace` it is ready before it is due: its lane is held until then. */
  add(task: MemoryTask, now: number, keepsPlace: boolean): void {
    task.dueAt = task.record.nextAttemptAt ?? now
    if (task.budget !== undefined) {
      task.lane.budgeted.add(task)
      this.#budgetedOf(task.budget).push(task)
    } else if (task.dueAt <= now || keepsPlace) this.lanes.addReady(task)
    else this.#scheduledOf(task.record.kind).push(task)
  }

  /** Forgets a task that waits under a retry budget. */
  leaveBudget(task: MemoryTask): void {
    task.lane.budgeted.delete(task)
    task.budget = undefined
  }

  /** Makes up to `most` due retries of these budgets ready, in all. Returns how many of each there were. */
  letThrough(budgets: readonly number[], most: number, now: number): ReadonlyMap<number, number> {
    const counts = new Map<number, number>()
    for (let left = most; left > 0; left--) {
      const task = this.#firstBudgeted(budgets)
      if (task?.budget === undefined || task.dueAt > now) break
      this.#budgeted.get(task.budget)?.pop()
      counts.set(task.budget, (counts.get(task.budget) ?? 0) + 1)
      this.leaveBudget(task)
      this.lanes.addReady(task)
    }
    return counts
  }

  #firstBudgeted(budgets: readonly number[]): MemoryTask | undefined {
    const heads = budgets.flatMap(budget => this.#budgeted.get(budget)?.peek() ?? [])
    return heads.length <= 1 ? heads[0] : heads.reduce((a, b) => (isDueBefore(b, a) ? b : a))
  }

  /** When the first retry of a budget is due, or was. */
  nextBudgeted(budget: number): number {
    return this.#budgeted.get(budget)?.peek()?.dueAt ?? Infinity
  }

  /** Makes due tasks ready, then starts those that a claim gets. */
  claim(
    { rooms, limit, isIdle }: ClaimRequest,
    now: number,
    gates: readonly OpenGate[],
    start: (task: MemoryTask) => void,
  ): void {
    for (const kind of kindsOf(rooms)) this.#makeReady(kind, now)
    if (isIdle && this.#startAlone(rooms, limit, now, gates, start)) return
    const closed = new Set<MemorySharedLimit>()
    let left = limit
    const parts = roomParts(rooms, gates)
    const partRooms = parts.map(({ room }) => room)
    for (const [index, part] of parts.entries()) {
      const before = left
      const count = (task: MemoryTask) => {
        start(task)
        left--
      }
      const { room } = part
      const places = placesInPart(part, left)
      const turn = this.lanes.take(places, laneTest(partRooms, index), now, this.#turns.last(room), closed, count)
      this.#turns.set(room, turn)
      partGave(part, before - left)
    }
  }

  /** Takes a task that is due, if its lane is open and it is the first there. Returns whether it did. */
  takeFirst(task: MemoryTask, now: number): boolean {
    const { lane } = task
    if (!lane.isOpen(now) || lane.isBlocked || lane.letterBefore(undefined) !== undefined || !lane.canPayFor(task, now))
      return false
    this.#makeReady(lane.kind, now)
    if (lane.ready.peek() !== task) return false
    lane.ready.pop()
    return true
  }

  /** Whether a task of any room is ready that must run alone. */
  isAloneWaiting(rooms: readonly Room[], now: number, gates: readonly OpenGate[]): boolean {
    return this.lanes.firstAlone(behind(gates, laneTest(rooms)), now) !== undefined
  }

  /** When there may be more to claim. */
  nextAt(rooms: readonly Room[], now: number): number {
    const due = kindsOf(rooms).map(kind => this.#scheduled.get(kind)?.peek()?.record.nextAttemptAt ?? Infinity)
    return Math.min(...due, this.lanes.nextOpening(laneTest(rooms), now))
  }

  /** Starts the first task that must run alone, of the first room that has one. */
  #startAlone(
    rooms: readonly Room[],
    limit: number,
    now: number,
    gates: readonly OpenGate[],
    start: (task: MemoryTask) => void,
  ): boolean {
    for (const [index, room] of rooms.entries()) {
      if (placesIn(room, limit) === 0) continue
      const task = this.lanes.firstAlone(behind(gates, laneTest(rooms, index)), now)?.alone.pop()
      if (task === undefined) continue
      for (const gate of gates) if (isCovering(gate, task.lane)) noteStarts(gate, 1)
      start(task)
      return true
    }
    return false
  }

  #makeReady(kind: string, now: number): void {
    const scheduled = this.#scheduled.get(kind)
    for (let task = scheduled?.peek(); task !== undefined && task.dueAt <= now; task = scheduled?.peek()) {
      scheduled?.pop()
      this.lanes.addReady(task)
    }
  }

  #budgetedOf(budget: number): MemoryHeap<MemoryTask> {
    const heap = this.#budgeted.get(budget) ?? budgetedHeap()
    this.#budgeted.set(budget, heap)
    return heap
  }

  #scheduledOf(kind: string): MemoryHeap<MemoryTask> {
    const heap = this.#scheduled.get(kind) ?? scheduledHeap()
    this.#scheduled.set(kind, heap)
    return heap
  }
}

/** The lanes among these that no gate keeps back. */
function behind(gates: readonly OpenGate[], isAllowed: (lane: MemoryLane) => boolean): (lane: MemoryLane) => boolean {
  if (gates.length === 0) return isAllowed
  return lane => isAllowed(lane) && !gates.some(gate => gate.left <= 0 && isCovering(gate, lane))
}

/** Whether a lane belongs to a room, which is the first one that names it. Without an index: to any of them. */
function laneTest(rooms: readonly Room[], index?: number): (lane: MemoryLane) => boolean {
  return lane => {
    const first = rooms.findIndex(room => isInRoom(room, lane))
    return index === undefined ? first >= 0 : first === index
  }
}

function kindsOf(rooms: readonly Room[]): string[] {
  return [...new Set(rooms.flatMap(({ kinds }) => kinds))]
}
