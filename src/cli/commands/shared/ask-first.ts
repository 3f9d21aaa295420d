import type { Environment } from '../../environment.js'
import { UsageError } from '../../errors.js'
import { confirm } from '../../terminal/confirm.js'

/** A question before something that cannot be taken back. */
export interface Question {
  readonly question: string
  /** The effect, as a sentence, where there is no terminal to ask on. */
  readonly effect: string
  /** Says what was done without a yes: `0 moved.` */
  readonly nothing: string
}

/** Asks on the terminal. Throws a `UsageError` unless the answer is yes; without a terminal, it names the flag. */
export async function askFirst(environment: Environment, { question, effect, nothing }: Question): Promise<void> {
  switch (await confirm(environment, question)) {
    case 'yes':
      return
    case 'no':
      throw new UsageError(`Not confirmed. ${nothing}`)
    case 'unasked':
      throw new UsageError(`${effect} Without a terminal to confirm on, pass --yes. ${nothing}`)
  }
}
