import type { By } from '../store/index.js'
import type { LiveOptions } from './run-options.js'
import type { RunResult } from './run-result.js'
import type { Snapshot } from './snapshot.js'

/** A run that this process works on. */
export interface RunHandle<Out = unknown> {
  /** The id of the run. */
  readonly id: string
  /** Resolves when the run has ended, was stopped, or has nothing left to do because its source was interrupted. */
  readonly result: Promise<RunResult>
  /** Snapshots, about one a second, until the run has ended. */
  progress(): AsyncIterable<Snapshot>
  /** The results of succeeded items so far, in the order of the source. */
  results(): AsyncIterable<ItemResult<Out>>
  /** No item starts until `resume()`, on any machine; those that run finish their stage. */
  pause(by?: By): Promise<void>
  /** Resumes a paused or stopped run. */
  resume(by?: By): Promise<void>
  /** Ends all items that have not ended, on all machines. */
  cancel(by?: By): Promise<void>
  /** Changes the run while it runs. Other machines follow within about a second. */
  change(options: LiveOptions, by?: By): Promise<void>
  /** Stops working on it in this process, as on a shutdown. Nothing is lost: other machines go on, or `resume()` does. */
  stop(): Promise<void>
}

/** The result of an item. */
export interface ItemResult<Out> {
  /** The item's own id, or its position in the source as text. */
  readonly id: string
  /** The value that the last stage returned. */
  readonly value: Out
}
