import type { End, Failed } from '../attempt/index.js'
import type { KindCodec } from '../codec/internal.js'
import { fingerprint, isBug, type PatternRules } from '../fingerprint/internal.js'
import { advance, type History } from '../policy/index.js'
import { type AttemptEntry, lostGroup, type Outcome } from '../store/internal.js'
import { failureText } from '../telemetry/index.js'
import { areStacksFrequent, failureStack } from '../telemetry/internal.js'
import { LeaseLostError, TaskCancelledError } from './errors.js'
import { recordedStack, recordedText } from './hidden-failure.js'

const NO_HISTORY: History = { attempts: 0, deferrals: 0, startedAt: 0 }

/** The outcome that follows from the end of an attempt. */
export function outcomeOf(end: End): Outcome {
  switch (end.type) {
    case 'succeeded':
      return end.reason === undefined
        ? { type: 'succeeded', result: end.value }
        : { type: 'succeeded', reason: end.reason }
    case 'advanced':
      // Asks to go on at once. The engine takes that back where the next stage has no place.
      return { type: 'advanced', to: end.to, value: end.value, keep: true, cost: end.cost }
    case 'skipped':
      return end
    case 'later':
      return { type: 'later', delayMs: end.delayMs }
    case 'failed':
      return outcomeOfFailure(end)
    case 'refused':
      return { type: 'dead', reason: end.reason }
    case 'stopped':
      if (end.reason instanceof TaskCancelledError) return { type: 'cancelled' }
      if (!(end.reason instanceof LeaseLostError)) return { type: 'released' }
      // A task that blocks its worker each time must not do so for ever. If the store was away, the task is not to blame: it
      // ran for a while, so it is on record, though it costs nothing.
      return end.reason.wasBlocked ? { type: 'lost' } : { type: 'later', delayMs: 0 }
  }
}

/** The part of a task that the ledger row of a failure depends on, beside the failure. */
interface FailedTask {
  readonly id: string
  readonly kind: string
  /** The text of its last failure. */
  readonly errorMessage?: string | undefined
}

/**
 * The ledger row of an attempt at a task; `undefined` where none was made. `policy` is the hash of the policy that decided,
 * `rules` are those by which failures are grouped, and `codec` that of the kind.
 */
export function entryOf(
  end: End,
  { id, kind, errorMessage: lastError }: FailedTask,
  about: Omit<AttemptEntry, 'verdict' | 'error' | 'stack' | 'group' | 'random' | 'policy'>,
  policy: string,
  rules: PatternRules,
  codec?: KindCodec | undefined,
): AttemptEntry | undefined {
  switch (end.type) {
    case 'failed': {
      const { verdict, random, step } = end
      const error = recordedText(end.failure, id, codec, step?.name)
      const stack = recordedStack(stackOf(end, error, lastError), end.failure, id, codec)
      const group = fingerprint({ kind, code: verdict.code, error, stack }, rules)
      // The copy comes last: properties that are added to a copy cost 5 µs, as much as all the rest of a failure's entry.
      return { verdict, random, error, stack, group, policy: step?.policyHash ?? policy, ...about }
    }
    case 'refused':
      return undefined
    case 'stopped':
      if (end.reason instanceof LeaseLostError) {
        const group = end.reason.wasBlocked ? lostGroup(kind) : undefined
        return { error: failureText(end.reason), group, ...about }
      }
      return end.reason instanceof TaskCancelledError ? about : undefined
    case 'succeeded':
    case 'advanced':
    case 'skipped':
    case 'later':
      return about
  }
}

/**
 * The failure that ends a task always has its stack, and so has a bug, whose fingerprint depends on it. Others have none if
 * they repeat the one before, or are very many.
 */
function stackOf({ failure, decision }: Failed, error: string, lastError: string | undefined): string | undefined {
  const isNeeded = decision.action === 'give_up' || isBug(error)
  if (!isNeeded && (error === lastError || areStacksFrequent())) return undefined
  return failureStack(failure)
}

/** The task waits for the next attempt of a step without an attempt of its own having failed. */
function outcomeOfFailure({ decision, verdict, isLoss = false, step }: Failed): Outcome {
  switch (decision.action) {
    case 'give_up':
      return { type: 'dead', reason: decision.reason }
    case 'defer':
      return { type: 'deferred', delayMs: decision.delayMs }
    case 'retry': {
      if (step !== undefined) return { type: 'later', delayMs: decision.delayMs }
      const isBackoff = !isLoss && advance(NO_HISTORY, verdict, decision).previousDelayMs !== undefined
      return { type: 'retry', delayMs: decision.delayMs, isBackoff }
    }
  }
}
