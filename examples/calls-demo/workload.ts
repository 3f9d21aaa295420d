import { policy, retry, type Sink } from 'redrive'

export const CALLS = 300
export const CONCURRENCY = 32
const FIRST_ORDER = 3001

/** Four attempts of at most 300 ms each. What is worth a retry, Redrive knows by itself. */
export const POLICY = policy({
  attempts: 4,
  timeout: '300ms',
  backoff: { kind: 'exponential', base: '250ms', max: '1s' },
  jitter: 'equal',
})

/** An unsuccessful answer of a service. Redrive reads `status`, and `Retry-After` from the headers. */
class HttpError extends Error {
  override readonly name = 'HttpError'

  constructor(
    readonly status: number,
    readonly headers: Headers,
  ) {
    super(`The server answered ${status}.`)
  }
}

/** Makes all the calls, some at a time, until they have ended or the signal aborts. Settles as each of them did. */
export async function runWorkload(url: string, sink: Sink, signal: AbortSignal): Promise<PromiseSettledResult<void>[]> {
  const calls: Promise<void>[] = []
  const ids = Array.from({ length: CALLS }, (_, i) => `/orders/${FIRST_ORDER + i}`).values()

  async function callOneByOne(): Promise<void> {
    for (const id of ids) {
      if (signal.aborted) return
      const call = retry(attempt => get(url + id, attempt.signal), POLICY, { id, name: `GET ${id}`, sink, signal })
      calls.push(call)
      await Promise.allSettled([call])
    }
  }

  await Promise.all(Array.from({ length: CONCURRENCY }, callOneByOne))
  return Promise.allSettled(calls)
}

async function get(url: string, signal: AbortSignal): Promise<void> {
  const response = await fetch(url, { signal })
  await response.arrayBuffer()
  if (!response.ok) throw new HttpError(response.status, response.headers)
}
