import { FinalError } from 'redrive'
import type { NewMessage } from 'redrive/bus'
import { type ConsumeOptions, DocumentNotFoundError } from 'redrive/event'
import { IdempotencyGuard } from 'redrive/idempotency'
import type { StoreContract } from '../../src/store/internal.js'
import { type Transaction, writeEffect } from './effects.js'
import type { Dice } from './seed.js'

/** An event of the fault tests, which says itself what becomes of it. */
export interface Happened {
  readonly number: number
  /** How often it fails before it succeeds. */
  readonly failures: number
  /** It never succeeds: it is to be a dead letter. */
  readonly isBad: boolean
}

/** After what a process may die. */
export type DeadlyMoment = 'effect' | 'ack'

/** Events of a type, numbered from 1: some succeed at once, some fail a few times, some are bad. */
export function someEvents(count: number, dice: Dice): Happened[] {
  return Array.from({ length: count }, (_, index) => ({
    number: index + 1,
    failures: dice.pick([0, 0, 0, 0, 1, 2, 3]),
    isBad: dice.between(1, 15) === 1,
  }))
}

export function toMessage(type: string, event: Happened): NewMessage {
  return { id: `event-${event.number}`, type, body: JSON.stringify(event) }
}

/** How events are consumed: with attempts enough for those that die with their consumer, and keys that outlive it. */
export function consumeOptions(store: StoreContract, onEffect: () => void = () => {}): ConsumeOptions<Happened> {
  return {
    store,
    service: 'faults',
    key: ({ number }) => [String(number)],
    // The tests kill more consumers than the three that one event may cost by default.
    policy: { attempts: 30, losses: 30, backoff: { base: '5ms', max: '50ms' } },
    guard: new IdempotencyGuard({ store: store.idempotency, lease: '1s' }),
    lease: '1s',
    handler: async ({ number, failures, isBad }, { attempt, key }) => {
      if (isBad) throw new FinalError('bad')
      if (attempt <= failures) throw new DocumentNotFoundError('not yet')
      await store.once(`effect of ${key}`, (tx: Transaction) => writeEffect(tx, { id: String(number), attempt }))
      onEffect()
    },
  }
}
