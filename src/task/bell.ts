import type { Clock, Sleeper, Timer } from '../time/index.js'

/** Wakes one loop: when it is rung, or when the time is up. A ring while nobody waits is heard by the next who does. */
export class Bell implements Sleeper {
  private isRung = false
  private resolve: (() => void) | undefined = undefined
  private timer: Timer | undefined = undefined

  constructor(private readonly clock: Clock) {}

  ring(): void {
    this.isRung = true
    this.wake()
  }

  /** Resolves when the bell rings or after the delay. */
  async wait(maxMs: number): Promise<void> {
    if (!this.isRung && maxMs > 0) {
      await new Promise<void>(resolve => {
        this.resolve = resolve
        this.timer = maxMs === Infinity ? undefined : this.clock.setTimer(this, maxMs)
      })
    }
    this.isRung = false
  }

  wake(): void {
    if (this.timer !== undefined) this.clock.clearTimer(this.timer)
    this.timer = undefined
    this.resolve?.()
    this.resolve = undefined
  }
}
