/** Creates its abort signal on first use: a controller costs more than a call does, and few handlers look at it. */
export class LazyAbort {
  // `private`, not `#`: every attempt has these fields, and initialising `#` fields costs a tenth of a call.
  private controller: AbortController | undefined = undefined
  private stopped: { readonly reason: unknown } | undefined = undefined
  private callback: ((reason: unknown) => void) | undefined = undefined

  get signal(): AbortSignal {
    this.controller ??= new AbortController()
    // Aborting twice is harmless.
    if (this.stopped) this.controller.abort(this.stopped.reason)
    return this.controller.signal
  }

  /** Whether anybody has asked for the signal, and so may know that it has aborted. */
  get isSignalRead(): boolean {
    return this.controller !== undefined
  }

  /** Why it has aborted; `undefined` if it has not. */
  get aborted(): { readonly reason: unknown } | undefined {
    return this.stopped
  }

  /** Calls back once when it aborts, at less than the cost of a signal. There is one callback at a time: the last one set. */
  whenAborted(callback: ((reason: unknown) => void) | undefined): void {
    this.callback = callback
  }

  /** Aborts the signal, whether it has been requested already or will be later. */
  abort(reason: unknown): void {
    this.stopped = { reason }
    this.controller?.abort(reason)
    const { callback } = this
    this.callback = undefined
    callback?.(reason)
  }
}
