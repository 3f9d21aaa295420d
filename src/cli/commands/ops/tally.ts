import type { WorkEvent } from '../../../telemetry/index.js'

/** Counts the outcomes of a worker's attempts. */
export class Tally {
  #succeeded = 0
  #retries = 0
  #deferrals = 0
  #dead = 0

  add({ type }: WorkEvent): void {
    if (type === 'attempt_succeeded') this.#succeeded++
    if (type === 'retry_scheduled') this.#retries++
    if (type === 'deferred') this.#deferrals++
    if (type === 'gave_up') this.#dead++
  }

  counts() {
    return { succeeded: this.#succeeded, retries: this.#retries, deferrals: this.#deferrals, dead: this.#dead }
  }

  text(): string {
    const { succeeded, retries, deferrals, dead } = this.counts()
    const deferred = deferrals === 0 ? '' : `, ${deferrals} deferred`
    return `${succeeded} succeeded, ${retries} ${retries === 1 ? 'retry' : 'retries'} scheduled${deferred}, ${dead} dead`
  }
}
