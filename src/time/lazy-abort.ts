/** An abort signal that is made when it is first asked for: a controller costs more than a call does, and few look at it. */
export class LazyAbort {
  private controller: AbortController | undefined = undefined
  private stopped: { readonly reason: unknown } | undefined = undefined

  get signal(): AbortSignal {
    if (this.controller === undefined) {
      this.controller = new AbortController()
      if (this.stopped !== undefined) this.controller.abort(this.stopped.reason)
    }
    return this.controller.signal
  }

  /** Tells whoever holds the signal that nobody waits for it any more. */
  stop(reason: unknown): void {
    this.stopped = { reason }
    this.controller?.abort(reason)
  }
}
