import type { Verdict } from '../policy/index.js'
import { isNetworkCode } from '../policy/internal.js'

/** A coarse type of failures, for reports and metrics: few values, the same for every service. @inline */
export type ErrorType = 'rate_limit' | 'server_error' | 'timeout' | 'network_error' | 'unknown'

const TIMEOUT = /^(timeout|http_408|ETIMEDOUT|\w*_TIMEOUT)$/i
const SERVER_ERROR = /^http_5\d\d$/

/** The type of the failure that a verdict is about. */
export function errorType({ class: errorClass, code }: Verdict): ErrorType {
  if (errorClass === 'rate_limited' || code === 'http_429') return 'rate_limit'
  if (TIMEOUT.test(code)) return 'timeout'
  if (SERVER_ERROR.test(code)) return 'server_error'
  return isNetworkCode(code) ? 'network_error' : 'unknown'
}
