/** Ids, kinds, categories and keys are indexed, and PostgreSQL's index rows are small. */
export const MAX_NAME_BYTES = 512

/** A text as part of a name that every store can keep and find again: not too long, and without NUL and half surrogate pairs. */
export function storableName(text: string): string {
  const name = text.replace(/[\0\p{Surrogate}]/gu, '\ufffd')
  const bytes = Buffer.from(name)
  // A stream leaves out what is left of a character that was cut.
  return bytes.length <= MAX_NAME_BYTES
    ? name
    : new TextDecoder().decode(bytes.subarray(0, MAX_NAME_BYTES), { stream: true })
}
