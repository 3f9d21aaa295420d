import { setTimeout as delay } from 'node:timers/promises'
import { FinalError, identityRandom, RateLimitedError } from 'redrive/policy'
import type { TaskContext } from 'redrive/task'

type Answer = 'ok' | 'refused' | 'reset' | 'unavailable' | 'hang' | 'down'

const TROUBLES = ['reset', 'unavailable', 'unavailable', 'hang'] as const
const WINDOW_MS = 1000

/** Which shares of the tasks are refused for good, meet an outage, or have trouble once, twice or three times. */
export interface Weather {
  readonly refused: number
  readonly down: number
  readonly troubled: readonly [once: number, twice: number, thrice: number]
}

/** A service that a task asks for something. What it answers depends on the task's id, so that runs are alike. */
export class Service {
  readonly #windows = new Map<string, { endsAt: number; requests: number }>()
  readonly #weather: Weather
  readonly #refusal: string

  /** `refusal` is the code of its refusals. */
  constructor(weather: Weather, refusal: string) {
    this.#weather = weather
    this.#refusal = refusal
  }

  /** Throws what went wrong. An outage is over by the next run, so that what died of it can be redriven. */
  async ask({ id, attempt, signal }: TaskContext, isOutageOver: boolean): Promise<void> {
    await delay(20 + identityRandom(`${id} latency`, attempt) * 160, undefined, { signal })
    switch (this.#answer(id, attempt)) {
      case 'ok':
        return
      case 'refused':
        throw new FinalError('The service will not have it.', { code: this.#refusal })
      case 'reset':
        throw Object.assign(new Error('The connection was reset.'), { code: 'ECONNRESET' })
      case 'unavailable':
        throw Object.assign(new Error('The service is overloaded.'), { status: 503 })
      case 'hang':
        return delay(60_000, undefined, { signal }) // Until the attempt's time is up.
      case 'down':
        if (!isOutageOver) throw Object.assign(new Error('The service is down.'), { status: 502 })
    }
  }

  /** A service that counts: so many requests in a second for each key, and a 429 with Retry-After for the rest. */
  limit(key: string, perSecond: number): void {
    const now = Date.now()
    const window = this.#windows.get(key)
    if (window === undefined || window.endsAt <= now) {
      this.#windows.set(key, { endsAt: now + WINDOW_MS, requests: 1 })
    } else if (++window.requests > perSecond) {
      throw new RateLimitedError(`${key} has used up its requests.`, { retryAfterMs: window.endsAt - now })
    }
  }

  #answer(id: string, attempt: number): Answer {
    const { refused, down, troubled } = this.#weather
    const [once, twice, thrice] = troubled
    let draw = identityRandom(id, 0)
    const isIn = (share: number) => {
      draw -= share
      return draw < 0
    }
    if (isIn(refused)) return 'refused'
    if (isIn(down)) return 'down'
    const troubles = isIn(once) ? 1 : isIn(twice) ? 2 : isIn(thrice) ? 3 : 0
    if (attempt > troubles) return 'ok'
    return TROUBLES[Math.floor(identityRandom(`${id} trouble`, attempt) * TROUBLES.length)] ?? 'reset'
  }
}
