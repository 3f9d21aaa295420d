/**
 * Verbs that are written once, for all stores.
 *
 * The body of a verb is a generator over the primitives of a store, which are its port:
 *
 *   const found = yield* tx.lockOperation(id)
 *
 * Memory and SQLite answer a primitive at once, so a body runs in one go, within a synchronous transaction. PostgreSQL
 * answers with a promise, and the body goes on when that is settled. A transaction may run a body again, after a conflict
 * for example, so a body changes nothing except through its port. Memory cannot roll back, so a body throws before its
 * first write or not at all.
 */

/** A body, or a part of one that others call with `yield*`. */
export type Steps<T> = Generator<PromiseLike<unknown>, T, unknown>

/** A function of a port. */
type Primitive = (...args: never[]) => unknown

/** A port as bodies use it. */
export type InSteps<Port> = {
  readonly [Name in keyof Port]: Port[Name] extends (...args: infer Args) => infer Answer
    ? (...args: Args) => Steps<Answer>
    : never
}

/** A port whose primitives answer with promises. */
export type Promised<Port> = {
  readonly [Name in keyof Port]: Port[Name] extends (...args: infer Args) => infer Answer
    ? (...args: Args) => Promise<Answer>
    : never
}

/** Runs bodies on a store. */
export interface Transactions<Port> {
  /** Runs a body in one transaction. Resolves after the commit. */
  write<T>(body: (tx: InSteps<Port>) => Steps<T>): Promise<T>
  /** Runs a body that only reads. */
  read<T>(body: (tx: InSteps<Port>) => Steps<T>): Promise<T>
}

/** Turns the primitives of a port into steps of a body. */
export function inSteps<Port>(port: Port | Promised<Port>): InSteps<Port> {
  const steps = Object.entries(port as Record<string, Primitive>).map(([name, primitive]) => [
    name,
    function* (...args: never[]): Steps<unknown> {
      const answer = primitive(...args)
      return answer instanceof Promise ? yield answer : answer
    },
  ])
  return Object.fromEntries(steps)
}

/** Runs a body on a port that answers at once. */
export function runNow<T>(body: Steps<T>): T {
  const step = body.next()
  if (step.done !== true) throw new TypeError('A body waits for a promise within a synchronous transaction.')
  return step.value
}

/** Runs a body on a port that answers with promises. */
export async function runAwaited<T>(body: Steps<T>): Promise<T> {
  let step = body.next()
  while (step.done !== true) {
    const { value } = step
    step = await value.then(
      answer => body.next(answer),
      (error: unknown) => body.throw(error),
    )
  }
  return step.value
}
