/**
 * The contents of a token: the claim that gave it, the task's position in the claim, from 1, the task's round and lane, and
 * how often it has advanced. An item that is kept when it advances stays in its round.
 */
export interface Claimed {
  readonly claim: number
  readonly n: number
  readonly round: number
  readonly lane: number
  readonly advances: number
}

export function tokenOf({ claim, n, round, lane, advances }: Claimed): string {
  return `${claim}.${n}.${round}.${lane}.${advances}`
}

/** For a token that this store did not give. No task is ever in that round, and no lane has that id. */
const NOT_OURS: Claimed = { claim: -1, n: 0, round: -1, lane: 0, advances: 0 }

export function claimedBy(token: string): Claimed {
  // By position: a worker settles tens of thousands of tasks a second, and splitting costs three times as much.
  const afterClaim = token.indexOf('.')
  const afterN = token.indexOf('.', afterClaim + 1)
  const afterRound = token.indexOf('.', afterN + 1)
  const afterLane = token.indexOf('.', afterRound + 1)
  if (afterClaim === -1 || afterN === -1 || afterRound === -1 || afterLane === -1) return NOT_OURS
  const claim = +token.slice(0, afterClaim)
  const n = +token.slice(afterClaim + 1, afterN)
  const round = +token.slice(afterN + 1, afterRound)
  const lane = +token.slice(afterRound + 1, afterLane)
  const advances = +token.slice(afterLane + 1)
  return Number.isSafeInteger(claim) && isInt4(n) && isInt4(round) && Number.isSafeInteger(lane) && isInt4(advances)
    ? { claim, n, round, lane, advances }
    : NOT_OURS
}

function isInt4(number: number): boolean {
  return (number | 0) === number
}
