import type { LiveNotes } from './attempt-notes.js'

/** The report of a worker about itself, with each heartbeat. */
export interface WorkerReport {
  /** The version of the application whose code it runs. */
  readonly release?: string | undefined
  /** The kinds of tasks that it runs. */
  readonly kinds?: readonly string[] | undefined
  /** The categories that it runs. Default: all. */
  readonly categories?: readonly string[] | undefined
  /** Whether it claims nothing, until its own code lets it go on. Default: false. */
  readonly isPaused?: boolean | undefined
  /** The machine that it runs on. */
  readonly host?: string | undefined
  /** Names the algorithm and the rules by which it groups failures. */
  readonly grouping?: string | undefined
  /** The ids of running tasks whose handlers go on although they were told to end, the first 100 of them. */
  readonly overruns?: readonly string[] | undefined
  /** What its running attempts have told of their progress, by the id of their task. */
  readonly notes?: Readonly<Record<string, LiveNotes>> | undefined
}

/** A worker whose lease has not expired, with its last report. An absent field was not reported. */
export interface WorkerRecord extends WorkerReport {
  /** The name of the worker. */
  readonly name: string
  /** When its first heartbeat was taken, on the store's clock. */
  readonly since: number | undefined
  /** When its last heartbeat was taken. Claims renew the lease too. */
  readonly beatAt: number | undefined
  /** The end of its lease. */
  readonly until: number
}

/** Lists the workers of a store. */
export interface WorkerReader {
  /** The workers whose lease has not expired, by name. */
  workers(): Promise<WorkerRecord[]>
}
