import type { Verdict } from '../policy/index.js'
import { errorType } from '../telemetry/index.js'

/** A class of codes: few values, whatever codes services and users invent. */
export type CodeClass = 'http_4xx' | 'http_5xx' | 'rate_limited' | 'timeout' | 'network' | 'lost' | 'other'

/** The class of a verdict's code, as a label. */
export function codeClass(verdict: Verdict): CodeClass {
  if (verdict.code === 'lost') return 'lost'
  switch (errorType(verdict)) {
    case 'rate_limit':
      return 'rate_limited'
    case 'timeout':
      return 'timeout'
    case 'server_error':
      return 'http_5xx'
    case 'network_error':
      return 'network'
    case 'unknown':
      return /^http_4\d\d$/.test(verdict.code) ? 'http_4xx' : 'other'
  }
}
