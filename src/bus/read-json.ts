const TIMEOUT_MS = 10_000

/** What a broker tells of itself over HTTP; `undefined` if there is no such thing. */
export async function readJson<T>(url: URL, headers: Record<string, string> = {}): Promise<T | undefined> {
  const response = await fetch(url, { headers, signal: AbortSignal.timeout(TIMEOUT_MS) })
  if (response.status === 404) return undefined
  if (!response.ok) throw new Error(`The answer was ${response.status} ${response.statusText}.`)
  return (await response.json()) as T
}
