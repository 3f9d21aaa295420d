import type { WorkEvent } from '../../telemetry/index.js'

/** Counts what a worker's attempts came to. */
export class Tally {
  private succeeded = 0
  private retries = 0
  private deferrals = 0
  dead = 0

  add({ type }: WorkEvent): void {
    if (type === 'attempt_succeeded') this.succeeded++
    if (type === 'retry_scheduled') this.retries++
    if (type === 'deferred') this.deferrals++
    if (type === 'gave_up') this.dead++
  }

  counts() {
    const { succeeded, retries, deferrals, dead } = this
    return { succeeded, retries, deferrals, dead }
  }

  text(): string {
    const { succeeded, retries, deferrals, dead } = this
    const deferred = deferrals === 0 ? '' : `, ${deferrals} deferred`
    return `${succeeded} succeeded, ${retries} ${retries === 1 ? 'retry' : 'retries'} scheduled${deferred}, ${dead} dead`
  }
}
