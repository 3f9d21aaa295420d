import type { ScheduleView } from '../../../operate/index.js'

/** When a schedule is due, in words; `undefined` if its times say it themselves, as an interval does. */
export type InWords = (schedule: Pick<ScheduleView, 'times' | 'timeZone'>) => string | undefined

/** Loads what puts cron expressions into words: only commands that show schedules need it. */
export async function loadWords(): Promise<InWords> {
  const { default: cronstrue } = await import('cronstrue')
  return ({ times, timeZone }) => {
    if (!('cron' in times)) return undefined
    try {
      const words = cronstrue.toString(times.cron, { use24HourTimeFormat: true })
      // "on day 1 of the month, only on Monday" would be read as if both had to match.
      const either = hasTwoDays(times.cron) ? ' (either day is enough)' : ''
      return `${words}${either}, ${timeZone} time`
    } catch {
      // It knows fewer forms than the parser.
      return undefined
    }
  }
}

/** Whether both the day of the month and the weekday are restricted. */
function hasTwoDays(cron: string): boolean {
  const fields = cron.trim().split(/\s+/)
  return fields.length >= 5 && fields.at(-3) !== '*' && fields.at(-1) !== '*'
}
