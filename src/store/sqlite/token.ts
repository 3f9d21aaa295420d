import { randomBytes } from 'node:crypto'

/** Where a task is, as its token says. Not to be trusted before the token was found in the task's row. */
export interface Place {
  readonly seq: number
  readonly lane: number
}

const ours = randomBytes(6).toString('base64url')
let claims = 0

/** What tells the tokens of one claim from those of all others. */
export function makeNonce(): string {
  return `${ours}${(claims++).toString(36)}`
}

/**
 * The token of a task in a claim, as the statement `start` writes it too. It says where its task is, so that to settle
 * it costs no search.
 */
export function tokenOf(seq: number, lane: number, nonce: string): string {
  return `${seq}.${lane}.${nonce}`
}

/** Where the task of a token is; `undefined` if no claim gave it. */
export function placeOf(token: string): Place | undefined {
  const first = token.indexOf('.')
  const second = token.indexOf('.', first + 1)
  if (first < 1 || second < 0) return undefined
  const seq = Number(token.slice(0, first))
  const lane = Number(token.slice(first + 1, second))
  return Number.isSafeInteger(seq) && Number.isSafeInteger(lane) ? { seq, lane } : undefined
}
