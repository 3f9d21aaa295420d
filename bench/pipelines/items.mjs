/** The stages of every pipeline measured here. */
export const STAGES = ['fetch', 'embed', 'filter']

const TEXT = 'x'.repeat(180)

/** Items of 200 bytes. Each stage returns its item as it is. */
export function* items(count) {
  for (let n = 0; n < count; n++) yield { n, text: TEXT }
}

/** The same with random ids of their own. */
export function* itemsWithIds(count) {
  for (const item of items(count)) yield { id: crypto.randomUUID(), ...item }
}
