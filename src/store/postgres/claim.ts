import type { Claim, ClaimRequest } from '../contract/claim.js'
import { RoomTurns } from '../rules/room-turns.js'
import { claimedTasks, type StartedTasks } from './claimed-task.js'
import { type Database, int4, wholeMs } from './database.js'
import type { Holdings } from './holdings.js'

/** Claims tasks for workers, and notes what each was given. */
export class Claims {
  readonly #database: Database
  readonly #holdings: Holdings
  readonly #turns = new RoomTurns()

  constructor(database: Database, holdings: Holdings) {
    this.#database = database
    this.#holdings = holdings
  }

  claim(request: ClaimRequest): Promise<Claim> {
    return this.#holdings.claim(request.worker, () => this.#send(request))
  }

  async #send({ worker, leaseMs, rooms, limit, isIdle }: ClaimRequest) {
    const asked = rooms.map(room => {
      const { kinds, categories, limit } = room
      return { kinds, categories, up_to: limit && int4(limit), last_turn: this.#turns.last(room) }
    })
    const values = [worker, wholeMs(leaseMs), JSON.stringify(asked), int4(limit), isIdle, this.#database.at]
    const answer = JSON.parse(String(await this.#database.call('claim', values))) as ClaimAnswer
    for (const [n, room] of rooms.entries()) {
      const turn = answer.last_turns[n]
      if (turn !== undefined) this.#turns.set(room, turn)
    }
    return { claim: decode(answer), asOf: answer.as_of }
  }
}

interface ClaimAnswer {
  readonly now: number
  readonly next_at: number | null
  readonly is_alone_waiting: boolean
  /** One for each room that was served. */
  readonly last_turns: readonly number[]
  readonly as_of: number
  readonly tasks: readonly (StartedTasks | null)[]
}

function decode({ tasks, now, next_at, is_alone_waiting }: ClaimAnswer): Claim {
  return {
    tasks: tasks.flatMap(started => (started === null ? [] : claimedTasks(started, now))),
    now,
    nextAt: next_at ?? undefined,
    isAloneWaiting: is_alone_waiting,
  }
}
