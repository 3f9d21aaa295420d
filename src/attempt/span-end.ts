import type { End, Failed } from './plan.js'
import type { SpanEnd } from './tracer.js'

/** The end of an attempt as its span shows it. */
export function spanEnd(end: End): SpanEnd {
  switch (end.type) {
    case 'failed':
      return failedEnd(end)
    case 'skipped':
      return { outcome: 'skipped', reason: end.reason }
    case 'later':
      return { outcome: 'later', delayMs: end.delayMs }
    case 'refused':
      return { outcome: 'dead', reason: end.reason }
    case 'succeeded':
    case 'advanced':
    case 'stopped':
      return { outcome: end.type }
  }
}

function failedEnd({ failure, verdict: { code }, decision }: Failed): SpanEnd {
  const failed = { failure, code }
  switch (decision.action) {
    case 'give_up':
      return { outcome: 'dead', reason: decision.reason, failed }
    case 'defer':
      return { outcome: 'deferred', delayMs: decision.delayMs, failed }
    case 'retry':
      return { outcome: 'retry', delayMs: decision.delayMs, failed }
  }
}
