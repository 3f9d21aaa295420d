import type { Verdict } from 'redrive'
import type { GaveUp, Sink, WorkEvent } from 'redrive/telemetry'

/** One call, as the events tell it. */
export interface CallState {
  state: 'running' | 'waiting' | 'succeeded' | 'gave_up'
  retries: number
  ending?: GaveUp
}

/** One kind of failure, and how often it was seen. */
export interface FailureCount {
  readonly verdict: Verdict
  seen: number
  retried: number
}

/** Keeps count of what happens, from the events alone. The progress line and the report both read it. */
export class Tally {
  readonly calls = new Map<string, CallState>()
  readonly failures = new Map<string, FailureCount>()
  attempts = 0

  readonly sink: Sink = event => this.#take(event)

  count(state: CallState['state']): number {
    return [...this.calls.values()].filter(call => call.state === state).length
  }

  #take(event: WorkEvent): void {
    const call = this.#call(event.work.id)
    switch (event.type) {
      case 'attempt_started':
        this.attempts++
        call.state = 'running'
        break
      case 'attempt_succeeded':
        call.state = 'succeeded'
        break
      case 'retry_scheduled':
      case 'deferred':
        call.state = 'waiting'
        call.retries++
        this.#countFailure(event.verdict, true)
        break
      case 'gave_up':
        if (event.reason === 'aborted') return // Not a failure of the work: the call was interrupted.
        call.state = 'gave_up'
        call.ending = event
        this.#countFailure(event.verdict, false)
        break
      default: // Other events do not change a call's state.
    }
  }

  #call(id: string): CallState {
    const known = this.calls.get(id)
    if (known !== undefined) return known
    const call: CallState = { state: 'running', retries: 0 }
    this.calls.set(id, call)
    return call
  }

  #countFailure(verdict: Verdict, retried: boolean): void {
    const count = this.failures.get(verdict.code) ?? { verdict, seen: 0, retried: 0 }
    this.failures.set(verdict.code, count)
    count.seen++
    if (retried) count.retried++
  }
}
