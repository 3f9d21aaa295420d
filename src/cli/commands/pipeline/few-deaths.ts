import type { Sink, WorkEvent } from '../../../telemetry/index.js'
import { suggest } from '../../suggest.js'
import { grouped } from '../../terminal/chart.js'
import { quoted } from '../../terminal/visible.js'

/** How many dead letters of one kind and code are logged one by one. */
const MAX_LINES = 5

/** The rest is summed up this often. */
const PERIOD_MS = 10_000

/** Dead letters with the same kind and code. */
interface Alike {
  readonly name: string
  readonly code: string
  logged: number
  more: number
}

/** Logs work events, but of many dead letters that failed alike only the first ones: an outage must not flood the log. */
export class FewDeaths {
  readonly #log: Sink
  readonly #say: (text: string) => void
  readonly #alike = new Map<string, Alike>()
  readonly #timer: NodeJS.Timeout

  constructor(log: Sink, say: (text: string) => void) {
    this.#log = log
    this.#say = say
    this.#timer = setInterval(() => this.#sumUp(), PERIOD_MS).unref()
  }

  readonly sink: Sink = event => {
    if (this.#isTold(event)) this.#log(event)
  }

  /** Says how many were not logged. */
  close(): void {
    clearInterval(this.#timer)
    this.#sumUp()
  }

  #isTold(event: WorkEvent): boolean {
    if (event.type !== 'gave_up' || event.reason === 'aborted') return true
    const alike = this.#of(event.work.name, event.verdict?.code ?? event.reason)
    if (alike.logged < MAX_LINES) alike.logged++
    else alike.more++
    return alike.more === 0
  }

  #of(name: string, code: string): Alike {
    const key = JSON.stringify([name, code])
    const known = this.#alike.get(key) ?? { name, code, logged: 0, more: 0 }
    this.#alike.set(key, known)
    return known
  }

  #sumUp(): void {
    for (const [key, alike] of this.#alike) {
      const { name, code, more } = alike
      // After a quiet period, the next ones are news.
      if (more === 0) this.#alike.delete(key)
      else
        this.#say(
          `${grouped(more)} more dead letters of ${quoted(name)}, code ${code}. To see why, run: ${suggest('groups ls')}`,
        )
      alike.more = 0
    }
  }
}
