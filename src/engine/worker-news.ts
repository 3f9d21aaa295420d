import { type GateChange, type SlotRecord, slotRunId } from '../store/internal.js'
import type { Sink } from '../telemetry/index.js'
import { emit } from '../telemetry/internal.js'
import type { Clock } from '../time/index.js'

/** Tells a sink what a worker notices beside its attempts. */
export class WorkerNews {
  readonly #work: { readonly kind: 'worker'; readonly id: string; readonly name: string }
  readonly #clock: Clock
  readonly #sink: Sink | undefined
  #hasLostLease = false

  constructor(worker: string, clock: Clock, sink: Sink | undefined) {
    this.#work = { kind: 'worker', id: worker, name: worker }
    this.#clock = clock
    this.#sink = sink
  }

  /** The store took a heartbeat. */
  beat(): void {
    this.#hasLostLease = false
  }

  /** Told once until the store takes a beat again. */
  leaseLost(running: number): void {
    if (this.#sink === undefined || this.#hasLostLease) return
    this.#hasLostLease = true
    emit(this.#sink, { type: 'lease_lost', work: this.#work, at: this.#clock.now(), running })
  }

  slotEnded({ schedule, slot, until, end, reason, at }: SlotRecord): void {
    if (this.#sink === undefined) return
    const work = { kind: 'schedule', id: slotRunId(schedule, slot), name: schedule } as const
    const details = { slot, ...(until !== undefined && { until }), end, ...(reason !== undefined && { reason }) }
    emit(this.#sink, { type: 'slot_ended', work, at, ...details })
  }

  gateChanged({ kind, category, gate }: GateChange): void {
    if (this.#sink === undefined) return
    const work = this.#work
    const scope = { taskKind: kind, ...(category !== undefined && { category }) }
    const { until, holds, cause } = gate
    const at = this.#clock.now()
    if (gate.state === 'closed' || until === undefined || cause === undefined)
      emit(this.#sink, { type: 'gate_closed', work, at, ...scope })
    else emit(this.#sink, { type: 'gate_opened', work, at, ...scope, until, holds, ...cause })
  }
}
