/**
 * A number in [0, 1) that depends on nothing but its arguments, so that the jitter of a piece of work can be recomputed
 * from its record, and different work still spreads evenly. For each character, a multiplication mixes upwards and a shift
 * downwards; the one at the end carries the last digit of the attempt through all bits.
 */
export function identityRandom(identity: string, attempt: number): number {
  let hash = 0
  for (const char of `${identity} ${attempt}.`) {
    hash = Math.imul(hash ^ char.charCodeAt(0), 0x27d4eb2f)
    hash ^= hash >>> 15
  }
  return (hash >>> 0) / 2 ** 32
}
