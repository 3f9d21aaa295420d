/**
 * A number in [0, 1) that depends on nothing but its arguments, so that the jitter of a piece of work can be
 * recomputed from its record, and different work still spreads evenly. (FNV-1a, then murmur3's finaliser.)
 */
export function identityRandom(identity: string, attempt: number): number {
  let hash = 0x811c9dc5
  for (let i = 0; i < identity.length; i++) hash = Math.imul(hash ^ identity.charCodeAt(i), 0x01000193)
  hash ^= Math.imul(attempt, 0x9e3779b1)
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b)
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35)
  return ((hash ^ (hash >>> 16)) >>> 0) / 2 ** 32
}
