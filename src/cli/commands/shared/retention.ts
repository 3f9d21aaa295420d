import { type Command, InvalidArgumentError } from 'commander'
import type { RetentionOptions } from '../../../engine/internal.js'
import { formatDuration } from '../../../policy/index.js'
import { ENDED_STATUSES, type EndedStatus } from '../../../store/internal.js'
import { grouped } from '../../terminal/chart.js'
import { duration } from './options.js'

/** The flags that say how long ended work is kept, and how much of it. */
export interface RetentionFlags {
  readonly keep?: number
  readonly keepSucceeded?: number
  readonly keepSkipped?: number
  readonly keepCancelled?: number
  readonly keepDead?: number
  readonly keepCount?: Counts
}

type Counts = Readonly<Partial<Record<EndedStatus, number>>>

/** Adds the flags that say how long ended work is kept. `whenLeftOut` goes behind the description of each. */
export function withRetentionOptions(command: Command, whenLeftOut = ''): Command {
  return command
    .option('--keep <duration>', `Delete ended work after this time, except dead letters${whenLeftOut}`, duration(0))
    .option('--keep-succeeded <duration>', 'Delete tasks that succeeded after this time, not after --keep', duration(0))
    .option('--keep-skipped <duration>', 'Likewise for tasks that were skipped', duration(0))
    .option('--keep-cancelled <duration>', 'Likewise for tasks that were cancelled', duration(0))
    .option('--keep-dead <duration>', `Delete dead letters after this time${whenLeftOut}`, duration(0))
    .option(
      '--keep-count <status=n>',
      'Keep only the newest tasks that ended in this status, such as succeeded=10000; may be repeated',
      counts,
    )
}

function counts(text: string, before: Counts = {}): Counts {
  const [, name, count] = /^(\w+)=(\d{1,15})$/.exec(text) ?? []
  const status = ENDED_STATUSES.find(known => known === name)
  if (status !== undefined) return { ...before, [status]: Number(count) }
  throw new InvalidArgumentError(`It must name ${ENDED_STATUSES.join(', ')} with a number, such as 'succeeded=10000'.`)
}

/** The retention that the flags ask for; `undefined` if they name nothing to delete. */
export function retentionOf(flags: RetentionFlags): RetentionOptions | undefined {
  const { keep, keepCount } = flags
  const ages = agesOf(flags)
  if (keep === undefined && keepCount === undefined && Object.values(ages).every(age => age === undefined))
    return undefined
  const of = (status: EndedStatus) => ({ age: ages[status], count: keepCount?.[status] })
  return {
    ...{ ended: keep, keys: keep, audit: keep },
    ...{ succeeded: of('succeeded'), skipped: of('skipped'), cancelled: of('cancelled'), dead: of('dead') },
  }
}

const WORDS = {
  succeeded: 'tasks that succeeded',
  skipped: 'skipped tasks',
  cancelled: 'cancelled tasks',
  dead: 'dead letters',
}

/** The selection of the flags, in words. */
export function retentionText(flags: RetentionFlags): string {
  const { keep, keepCount } = flags
  const ages = agesOf(flags)
  const parts = [
    ...(keep === undefined ? [] : [`work that ended more than ${formatDuration(keep)} ago`]),
    ...ENDED_STATUSES.flatMap(status => {
      const age = ages[status]
      return age === undefined ? [] : [`${WORDS[status]} older than ${formatDuration(age)}`]
    }),
    ...ENDED_STATUSES.flatMap(status => {
      const count = keepCount?.[status]
      return count === undefined ? [] : [`all ${WORDS[status]} but the newest ${grouped(count)}`]
    }),
  ]
  return parts.join(' and ')
}

function agesOf({ keepSucceeded, keepSkipped, keepCancelled, keepDead }: RetentionFlags) {
  return { succeeded: keepSucceeded, skipped: keepSkipped, cancelled: keepCancelled, dead: keepDead }
}
