import { FinalError } from '../../policy/index.js'

const AsyncFunction = (async () => {}).constructor

/**
 * Returns a function that calls another one and throws if that is asynchronous: a transaction of SQLite cannot wait, and
 * everything after the first `await` would run outside of it. A function that is declared `async` is not called at all.
 */
export function synchronous<Args extends readonly unknown[], T>(
  work: (...args: Args) => T,
): (...args: Args) => Awaited<T> {
  return (...args) => {
    if (work instanceof AsyncFunction) throw asynchronous()
    const result = work(...args)
    if (!isSettled(result)) throw asynchronous()
    return result
  }
}

function asynchronous(): FinalError {
  return new FinalError(
    'The function is asynchronous, and a SQLite transaction cannot wait for it. Await before the transaction instead.',
    { code: 'transaction_async' },
  )
}

function isSettled<T>(result: T): result is T & Awaited<T> {
  return !(typeof result === 'object' && result !== null && 'then' in result && typeof result.then === 'function')
}
