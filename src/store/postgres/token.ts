/** What a token stands for: which claim gave it, as which of its tasks, from 1, and in which round that was. */
export interface Claimed {
  readonly claim: number
  readonly n: number
  readonly round: number
}

export function tokenOf({ claim, n, round }: Claimed): string {
  return `${claim}.${n}.${round}`
}

/** Nothing is ever in the round of a token that this store did not give. */
const NOT_OURS: Claimed = { claim: -1, n: 0, round: -1 }

export function claimedBy(token: string): Claimed {
  const [claim, n, round, ...more] = token.split('.').map(Number)
  const isOurs = Number.isSafeInteger(claim) && isInt4(n) && isInt4(round) && more.length === 0
  return isOurs ? { claim: claim ?? 0, n: n ?? 0, round: round ?? 0 } : NOT_OURS
}

function isInt4(number: number | undefined): boolean {
  return number !== undefined && (number | 0) === number
}
