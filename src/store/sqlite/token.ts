import { randomBytes } from 'node:crypto'
import type { Held } from './statements/held.js'

/** Where a task is, according to its token. Not to be trusted until the claim was found in the task's row. */
export interface Place {
  readonly seq: number
  readonly lane: number
  /** The part of the token that the task's row has: all tasks of a claim have it in common. */
  readonly claim: string
}

const ours = randomBytes(6).toString('base64url')
let claims = 0

/** Makes the part of a token that no other claim has. */
export function makeClaim(): string {
  return `${ours}${(claims++).toString(36)}`
}

/** The token of a task in a claim. It names the place of the task, so that a settlement needs no search. */
export function tokenOf(seq: number, lane: number, claim: string): string {
  return `${seq}.${lane}.${claim}`
}

/** The claim of an item that advances: derived, so that a repeated settlement can be recognised. */
export function nextClaim(claim: string): string {
  const dot = claim.indexOf('.')
  return dot < 0 ? `${claim}.1` : `${claim.slice(0, dot)}.${Number(claim.slice(dot + 1)) + 1}`
}

/** The values of `IS_HELD`, for the task with an id at a place. */
export function held({ seq, lane, claim }: Place, id: string): Held {
  return [seq, lane, claim, id]
}

/** The place that a token names; `undefined` if no claim issued it. */
export function placeOf(token: string): Place | undefined {
  const first = token.indexOf('.')
  const second = token.indexOf('.', first + 1)
  if (first < 1 || second < 0) return undefined
  const seq = Number(token.slice(0, first))
  const lane = Number(token.slice(first + 1, second))
  if (!(Number.isSafeInteger(seq) && Number.isSafeInteger(lane))) return undefined
  return { seq, lane, claim: token.slice(second + 1) }
}
