import type { BatchPort } from './batch-port.js'
import type { BudgetPort } from './budget-port.js'
import type { GroupPort } from './group-port.js'
import type { LanePort } from './lane-port.js'
import type { OperationPort } from './operation-port.js'
import type { ReadPort } from './read-port.js'
import type { RecordPort } from './record-port.js'
import type { RunPort } from './run-port.js'
import type { StepPort } from './step-port.js'
import type { AuditPort, ClockPort, TaskPort } from './task-port.js'
import type { UniquePort } from './unique-port.js'

/**
 * Verbs that are written once, for all stores.
 *
 * The body of a verb is a generator over the primitives of a store, by noun. Together they are its port:
 *
 *   const found = yield* tx.operations.lock(id)
 *
 * Memory and SQLite answer a primitive at once, so a body runs in one go, within a synchronous transaction. PostgreSQL
 * answers with a promise, and the body goes on when that is settled. A transaction may run a body again, after a conflict
 * for example, so a body changes nothing except through its port. Memory cannot roll back, so a body throws before its
 * first write or not at all.
 *
 * To add a noun, declare its primitives with plain signatures in a file beside this one, and name it in `Port`. Then write
 * a class per store, each method of which is a primitive: `implements ThingPort` on memory and SQLite, and on PostgreSQL
 * `implements Promised<ThingPort>` with `async` methods, where an object lives as long as one transaction. The compiler asks
 * for the three in the `port.ts` of each store, and bodies call `yield* tx.things.save(…)`. Helpers of such a class are
 * functions or `#private`. A primitive reads or writes rows. What follows from them is for `rules/` to say, and in which
 * order things happen for the body.
 */

/** The primitives of a store, by noun. */
export interface Port {
  readonly clock: ClockPort
  readonly audit: AuditPort
  readonly tasks: TaskPort
  readonly steps: StepPort
  readonly unique: UniquePort
  readonly records: RecordPort
  readonly lanes: LanePort
  readonly budgets: BudgetPort
  readonly runs: RunPort
  readonly batches: BatchPort
  readonly operations: OperationPort
  readonly reads: ReadPort
  readonly groups: GroupPort
}

/** The port of a store that answers with promises. */
export type PromisedPort = { readonly [Noun in keyof Port]: Promised<Port[Noun]> }

/** A transaction as bodies use it. */
export type Tx = { readonly [Noun in keyof Port]: InSteps<Port[Noun]> }

/** A body, or a part of one that others call with `yield*`. */
export type Steps<T> = Generator<PromiseLike<unknown>, T, unknown>

/** The primitives of a noun as bodies call them. */
export type InSteps<Noun> = {
  readonly [Name in keyof Noun]: Noun[Name] extends (...args: infer Args) => infer Answer
    ? (...args: Args) => Steps<Answer>
    : never
}

/** The primitives of a noun that answer with promises. */
export type Promised<Noun> = {
  readonly [Name in keyof Noun]: Noun[Name] extends (...args: infer Args) => infer Answer
    ? (...args: Args) => Promise<Answer>
    : never
}

/** Runs bodies on a store. */
export interface Transactions {
  /** Runs a body in one transaction. Resolves after the commit. */
  write<T>(body: (tx: Tx) => Steps<T>): Promise<T>
  /** Runs a body that only reads. */
  read<T>(body: (tx: Tx) => Steps<T>): Promise<T>
}

/** Turns the primitives of a port into steps of a body. */
export function inSteps(port: Port | PromisedPort): Tx {
  const nouns = Object.entries(port as Nouns).map(([name, noun]) => [name, new (stepsOf(noun))(noun)])
  return Object.fromEntries(nouns)
}

type Nouns = Readonly<Record<string, Primitives>>
type Primitives = Readonly<Record<string, (...args: never[]) => unknown>>

/** Calls the primitives of a noun, as steps. */
class NounSteps {
  readonly noun: Primitives

  constructor(noun: Primitives) {
    this.noun = noun
  }
}

/** The steps of each class of primitives. They are made once: a transaction on PostgreSQL has objects of its own. */
const STEPS = new Map<unknown, typeof NounSteps>()

function stepsOf(noun: Primitives): typeof NounSteps {
  const known = STEPS.get(noun.constructor)
  if (known !== undefined) return known
  const steps = class extends NounSteps {}
  for (const name of Object.getOwnPropertyNames(noun.constructor.prototype)) {
    if (name === 'constructor') continue
    Object.defineProperty(steps.prototype, name, {
      *value(this: NounSteps, ...args: never[]): Steps<unknown> {
        const answer = this.noun[name]?.(...args)
        return answer instanceof Promise ? yield answer : answer
      },
    })
  }
  STEPS.set(noun.constructor, steps)
  return steps
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
