/** An abort signal that is made when it is first asked for: a controller costs more than a call does, and few look at it. */
export class LazyAbort {
  // Not `#`: setting up private fields costs a tenth of a call, and every attempt has these.
  private controller: AbortController | undefined = undefined
  private stopped: { readonly reason: unknown } | undefined = undefined

  get signal(): AbortSignal {
    this.controller ??= new AbortController()
    // To abort what has aborted already changes nothing.
    if (this.stopped) this.controller.abort(this.stopped.reason)
    return this.controller.signal
  }

  /** Tells whoever holds the signal that nobody waits for it any more. */
  stop(reason: unknown): void {
    this.stopped = { reason }
    this.controller?.abort(reason)
  }
}
