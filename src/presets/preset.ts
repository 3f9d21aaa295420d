import type { SweeperSettings } from '../document/index.js'
import type { Policy } from '../policy/index.js'
import type { Env } from './env.js'

/** The settings of one existing system as data, each for the option that takes it. */
export interface Preset {
  /** The name for `presetNamed` and `--preset`. */
  readonly name: string
  /** The policy of each category of calls: the option `categories` of `RetryManager`. */
  readonly categories?: Readonly<Record<string, Policy>>
  /** Maps each failed queue to the event type that its messages return to, where the bus has no queue of that name. */
  readonly routes?: Readonly<Record<string, string>>
  /** The policy of its work, as the environment sets it: the option `policy` of tasks, consumers and `handleEvent`. */
  readonly policy?: (env: Env) => Policy
  /** The errors that it retries, and no others: the field `retryOn` of a policy. */
  readonly retryOn?: readonly string[]
  /** The idempotency key of an event: the option `key` of consumers and `handleEvent`. */
  readonly key?: (service: string, ids: readonly string[]) => string
  /** The names of its metrics: the option `names` of `eventMetrics`. */
  readonly metricNames?: Readonly<Record<'successes' | 'latency' | 'deadLetters' | 'attempts', string>>
  /** Its collections of documents and how they are swept, as the environment sets it: options of `sweeper`. */
  readonly sweeper?: (env: Env) => SweeperSettings
  /** The names of its metrics of sweeps: the option `names` of `documentMetrics`. */
  readonly documentMetricNames?: Readonly<
    Record<'requeued' | 'skipped' | 'exhausted' | 'runs' | 'errors' | 'stuck' | 'failed' | 'duration', string>
  >
}
