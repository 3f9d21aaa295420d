import { randomBytes } from 'node:crypto'

/** Where a task is, according to its token. Not to be trusted until the token was found in the task's row. */
export interface Place {
  readonly seq: number
  readonly lane: number
  /** The rest of the token, which all tasks of a claim have in common as long as they are in the same lane. */
  readonly claim: string
}

const ours = randomBytes(6).toString('base64url')
let claims = 0

/** Makes the part of a token that no other claim has. */
export function makeNonce(): string {
  return `${ours}${(claims++).toString(36)}`
}

/**
 * The token of a task in a claim. The statement `start` builds the same text. It names the place of the task, so that a
 * settlement needs no search.
 */
export function tokenOf(seq: number, lane: number, nonce: string): string {
  return `${seq}.${lane}.${nonce}`
}

/** The token of an item that advances to a lane: derived, so that a repeated settlement can be recognised. */
export function nextToken(token: string, lane: number): string {
  const first = token.indexOf('.')
  const second = token.indexOf('.', first + 1)
  const third = token.indexOf('.', second + 1)
  const stage = third < 0 ? 0 : Number(token.slice(third + 1))
  const nonce = token.slice(second + 1, third < 0 ? undefined : third)
  return `${token.slice(0, first)}.${lane}.${nonce}.${stage + 1}`
}

/** The place that a token names; `undefined` if no claim issued it. */
export function placeOf(token: string): Place | undefined {
  const first = token.indexOf('.')
  const second = token.indexOf('.', first + 1)
  if (first < 1 || second < 0) return undefined
  const seq = Number(token.slice(0, first))
  const lane = Number(token.slice(first + 1, second))
  if (!(Number.isSafeInteger(seq) && Number.isSafeInteger(lane))) return undefined
  return { seq, lane, claim: token.slice(first + 1) }
}
