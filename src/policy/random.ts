/**
 * A number in [0, 1) that depends on nothing but its arguments, so that the jitter of a piece of work can be recomputed
 * from its record, and different work still spreads evenly. (FNV-1a, then two rounds of mixing.)
 */
export function identityRandom(identity: string, attempt: number): number {
  let hash = Math.imul(attempt, 0x9e3779b1)
  for (let i = 0; i < identity.length; i++) hash = Math.imul(hash ^ identity.charCodeAt(i), 0x01000193)
  for (let round = 0; round < 2; round++) hash = Math.imul(hash ^ (hash >>> 15), 0x9e3779b1)
  return ((hash ^ (hash >>> 15)) >>> 0) / 2 ** 32
}
