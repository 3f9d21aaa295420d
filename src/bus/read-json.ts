import { get as getHttp, type IncomingMessage } from 'node:http'
import { get as getHttps } from 'node:https'
import { text } from 'node:stream/consumers'
import type { TlsOptions } from './tls-options.js'

const TIMEOUT_MS = 10_000

/**
 * Reads JSON from a broker's HTTP interface; `undefined` if it answers 404. Sends credentials in the URL as Basic
 * authentication, and follows no redirects, so that they reach no other address.
 */
export async function readJson<T>(url: URL, tls: TlsOptions = {}): Promise<T | undefined> {
  const signal = AbortSignal.timeout(TIMEOUT_MS)
  const response = await new Promise<IncomingMessage>((resolve, reject) => {
    const request =
      url.protocol === 'https:' ? getHttps(url, { ...tls, signal }, resolve) : getHttp(url, { signal }, resolve)
    request.once('error', reject)
  })
  const body = await text(response)
  const { statusCode = 0, statusMessage = '' } = response
  if (statusCode === 404) return undefined
  if (statusCode === 401) throw new Error('The answer was 401 Unauthorized. Put a user and a password into its URL.')
  if (statusCode !== 200) throw new Error(`The answer was ${statusCode} ${statusMessage}.`)
  return JSON.parse(body) as T
}
