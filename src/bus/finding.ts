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

/** The finding about a queue in which messages wait, and which nothing consumes. */
export function unconsumed(queue: string, messages: number): Finding {
  const waiting = messages === 1 ? '1 message waits' : `${messages} messages wait`
  return finding(
    'no_consumer',
    queue,
    `${waiting} in '${queue}', and nothing consumes it. Start its consumer.`,
    'warning',
  )
}
