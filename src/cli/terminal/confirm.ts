import type { Environment } from '../environment.js'
import { visible } from './visible.js'

/** The answer to a question: `unasked` if there is no terminal to ask on. */
export type Answer = 'yes' | 'no' | 'unasked'

/** Asks a yes-or-no question on the terminal. Anything but `y` and `yes` is a no. */
export async function confirm({ isTTY, prompt }: Environment, question: string): Promise<Answer> {
  if (!(isTTY.stdin && isTTY.stderr)) return 'unasked'
  return /^y(es)?$/i.test((await prompt(`${visible(question)} [y/N] `)).trim()) ? 'yes' : 'no'
}
