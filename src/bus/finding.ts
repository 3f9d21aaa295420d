import type { Finding, FindingCode } from './bus.js'

/** Builds a finding, which is an error unless a severity is given. */
export function finding(
  code: FindingCode,
  subject: string,
  message: string,
  severity: Finding['severity'] = 'error',
): Finding {
  return { code, severity, subject, message }
}
