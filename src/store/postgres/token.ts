/** The contents of a token: the claim that gave it, the task's position in the claim, from 1, and the task's round. */
export interface Claimed {
  readonly claim: number
  readonly n: number
  readonly round: number
}

export function tokenOf({ claim, n, round }: Claimed): string {
  return `${claim}.${n}.${round}`
}

/** For a token that this store did not give. No task is ever in that round. */
const NOT_OURS: Claimed = { claim: -1, n: 0, round: -1 }

export function claimedBy(token: string): Claimed {
  const first = token.indexOf('.')
  const second = token.indexOf('.', first + 1)
  const claim = Number(token.slice(0, first))
  const n = Number(token.slice(first + 1, second))
  const round = Number(token.slice(second + 1))
  return first > 0 && second > 0 && Number.isSafeInteger(claim) && isInt4(n) && isInt4(round)
    ? { claim, n, round }
    : NOT_OURS
}

function isInt4(number: number): boolean {
  return (number | 0) === number
}
