/** How something ends that runs until it is stopped, or until it cannot go on. It ends once. */
export class Ending {
  /** Resolves when it has ended. Rejects if that was because it could not go on. */
  readonly over: Promise<void>
  private isUnderWay = false
  private ending: Promise<void> | undefined = undefined
  private resolve: () => void = () => {}
  private reject: (failure: unknown) => void = () => {}

  constructor(private readonly end: () => Promise<void>) {
    this.over = new Promise((resolve, reject) => {
      this.resolve = resolve
      this.reject = reject
    })
  }

  get hasBegun(): boolean {
    return this.isUnderWay
  }

  /** Ends it. Rejects with what goes wrong on the way; what made it end before is told by `over` alone. */
  stop(): Promise<void> {
    this.ending ??= this.begin().finally(this.resolve)
    return this.ending
  }

  /** It cannot go on. */
  fail(failure: unknown): void {
    this.ending ??= this.begin().then(
      () => this.reject(failure),
      () => this.reject(failure),
    )
  }

  private begin(): Promise<void> {
    this.isUnderWay = true
    return this.end()
  }
}
