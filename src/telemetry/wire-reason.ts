import type { GiveUpReason } from '../policy/index.js'
import type { GaveUp } from './work-events.js'

/**
 * The reasons that other systems read in a spelling of their own: dead-letter entries as `abandoned_reason`, metrics as the
 * label `reason`. Everywhere else a reason has the kernel's name.
 */
const SPELLINGS = {
  attempts_exhausted: { entry: 'max_attempts_exceeded', label: 'max_attempts' },
  ttl_expired: { entry: 'ttl_exceeded', label: 'ttl_exceeded' },
  final_error: { entry: 'non_retryable_error', label: 'non_retryable' },
} as const satisfies { readonly [Reason in GiveUpReason]?: { readonly entry: string; readonly label: string } }

type Respelled = keyof typeof SPELLINGS

/** Why an event was given up, as dead-letter entries spell it. */
export type AbandonedReason = (typeof SPELLINGS)[Respelled]['entry'] | Exclude<GiveUpReason, Respelled>

/** The labels that a metric of dead letters starts with. */
export const REASON_LABELS: readonly string[] = Object.values(SPELLINGS).map(({ label }) => label)

/** Spells a reason as dead-letter entries do. */
export function abandonedReason(reason: GiveUpReason): AbandonedReason {
  return isRespelled(reason) ? SPELLINGS[reason].entry : reason
}

/** Spells a reason as the label of a metric; whatever else ends an event is `other`. */
export function reasonLabel(reason: GaveUp['reason']): string {
  return isRespelled(reason) ? SPELLINGS[reason].label : 'other'
}

function isRespelled(reason: string): reason is Respelled {
  return Object.hasOwn(SPELLINGS, reason)
}
