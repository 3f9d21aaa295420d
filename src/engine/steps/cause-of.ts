/** No more of a chain of causes is followed: it may be a circle. */
const MAX_CAUSES = 10

/** The first answer that an error or one of its causes gives. */
export function causeOf<T>(failure: unknown, ask: (error: unknown) => T | undefined): T | undefined {
  let error = failure
  for (let depth = 0; depth < MAX_CAUSES && typeof error === 'object' && error !== null; depth++) {
    const answer = ask(error)
    if (answer !== undefined) return answer
    error = nextOf(error)
  }
  return undefined
}

/** Whatever was thrown may refuse every question. */
function nextOf(error: object): unknown {
  try {
    return Reflect.get(error, 'cause')
  } catch {
    return undefined
  }
}
