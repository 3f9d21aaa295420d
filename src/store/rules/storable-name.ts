/** A text as part of a name that every store can keep and find again: without NUL and halves of surrogate pairs. */
export function storableName(text: string): string {
  return text.replace(/[\0\p{Surrogate}]/gu, '\ufffd')
}
