import type { Attributes } from '@opentelemetry/api'
import type { SpanEnd, TracedAttempt } from '../attempt/index.js'
import type { Work } from '../telemetry/index.js'

/** The attributes of every span: those of a message that is processed. */
function processed(destination: string): Attributes {
  return {
    'messaging.system': 'redrive',
    'messaging.operation.name': 'process',
    'messaging.operation.type': 'process',
    'messaging.destination.name': destination,
  }
}

/** The attributes of an attempt, by the semantic conventions for messaging; those of Redrive's own are `redrive.*`. */
export function attemptAttributes({ work, attempt, maxAttempts }: TracedAttempt): Attributes {
  return {
    ...(work.step === undefined && { ...processed(work.name), 'messaging.message.id': work.id }),
    'redrive.work': work.kind,
    'redrive.attempt': attempt,
    'redrive.max_attempts': maxAttempts,
    ...placeOf(work),
  }
}

/** The attributes of a call that takes several items. */
export function callAttributes(stage: string, count: number): Attributes {
  return { ...processed(stage), 'redrive.work': 'item', 'messaging.batch.message_count': count }
}

/** The attributes that an end adds. */
export function endAttributes({ outcome, reason, delayMs, failed }: SpanEnd): Attributes {
  return defined({
    'redrive.outcome': outcome,
    'redrive.reason': reason,
    'redrive.delay_ms': delayMs,
    'error.type': failed?.code,
  })
}

function placeOf({ category, tenantId, run, stage, step, idempotencyKey }: Work): Attributes {
  return defined({
    'redrive.category': category,
    'redrive.key': tenantId,
    'redrive.run': run,
    'redrive.stage': stage,
    'redrive.step': step,
    'redrive.idempotency_key': idempotencyKey,
  })
}

/** Without the attributes that have no value. */
export function defined(attributes: Attributes): Attributes {
  return Object.fromEntries(Object.entries(attributes).filter(([, value]) => value !== undefined))
}
