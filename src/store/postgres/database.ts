import type { PoolClient } from 'pg'
import { persist } from '../../attempt/index.js'
import { policy, RedriveError } from '../../policy/index.js'
import {
  StoreBusyError,
  StoreClosedError,
  StoreForbiddenError,
  StoreFullError,
  StoreReadOnlyError,
  StoreUnavailableError,
} from '../errors.js'
import type { Pool, SqlClient } from './driver.js'

/** How much longer than others a call may take that reads or writes as much as there is. */
export const LONG = 8

/** Two transactions got in each other's way, and this one was undone: PostgreSQL says that it should be tried again. */
const CONFLICT = /^(40001|40P01)$/
/** Full jitter, so that transactions that met do not meet again. */
const UNTIL_NO_CONFLICT = /* @__PURE__ */ policy({ attempts: 21, backoff: { base: '1ms', max: '200ms' } })

/** A lock could not be had in the time that the role has for it. */
const LOCKED = '55P03'

/** What was the primary may be a standby by now, or the name that led to it lead elsewhere. */
const READ_ONLY = '25006'

/** The statement took longer than the role may, or an operator ended it. */
export const CANCELED = '57014'

/**
 * The functions of a schema, called on a pool. Each call is one statement, and so one transaction, whatever pooler stands
 * between: no session state, no prepared statements.
 */
export class Database {
  #isClosed = false

  constructor(
    readonly pool: Pool,
    readonly schema: string,
    /** As errors name it. */
    readonly name: string,
    /** A call that takes longer has lost its connection: all of them are short. */
    readonly timeoutMs: number,
  ) {}

  /** Calls a function of the schema, and returns what it did. */
  call(fn: string, values: unknown[], patience = 1): Promise<unknown> {
    return this.query(this.#callText(fn, values.length), values, patience).then(answerOf)
  }

  /** Calls a function of the schema within a transaction of the caller's own. */
  async callIn(client: SqlClient, fn: string, values: unknown[]): Promise<unknown> {
    return answerOf(rowsOf(await client.query(this.#callText(fn, values.length), values)))
  }

  /** The rows of a statement. `redrive.` in it stands for the schema. */
  query(text: string, values: unknown[], patience = 1): Promise<readonly unknown[]> {
    const query = { text: inSchema(text, this.schema), values, query_timeout: patience * this.timeoutMs }
    return this.connected(async client => (await client.query(query)).rows)
  }

  /** Does something on a connection; after a conflict, once more. */
  async connected<T>(use: (client: PoolClient) => Promise<T>): Promise<T> {
    try {
      return await untilNoConflict(() => this.#lend(use))
    } catch (error) {
      throw this.explain(error)
    }
  }

  /**
   * Does something within a transaction of its own; after a conflict, all of it once more. The server ends it if it hears
   * nothing for long: whoever it belongs to may be gone without a word, and nobody else gets what it has locked.
   */
  async transaction<T>(work: (client: PoolClient) => Promise<T>): Promise<T> {
    let isWork = false
    const attempt = () =>
      this.#lend(async client => {
        const say = (text: string) => {
          const query = { text, query_timeout: this.timeoutMs }
          return client.query(query)
        }
        await say(`BEGIN; SET LOCAL idle_in_transaction_session_timeout = ${LONG * Math.ceil(this.timeoutMs)}`)
        try {
          isWork = true
          const result = await work(client)
          isWork = false
          await say('COMMIT')
          return result
        } catch (error) {
          await say('ROLLBACK').catch(() => {})
          throw error
        }
      })
    try {
      return await untilNoConflict(attempt)
    } catch (error) {
      // What the caller's own function throws is the caller's.
      throw isWork ? error : this.explain(error)
    }
  }

  /** Takes no more calls. */
  close(): void {
    this.#isClosed = true
  }

  #callText(fn: string, count: number): string {
    const parameters = Array.from({ length: count }, (_, index) => `$${index + 1}`)
    return `SELECT ${this.schema}.${fn}(${parameters.join(', ')}) AS answer`
  }

  /** Lends a connection. One that failed is not used again: nobody knows what is still on its way. */
  async #lend<T>(use: (client: PoolClient) => Promise<T>): Promise<T> {
    if (this.#isClosed) throw new StoreClosedError(this.name)
    const client = await this.#connect()
    let failure: unknown
    try {
      return await use(client)
    } catch (error) {
      failure = error
      throw error
    } finally {
      client.off('error', ignore)
      client.release(failure !== undefined && isBroken(failure))
    }
  }

  /** A connection that breaks says so twice: to its query, and to whoever listens, as early as it can. */
  #connect(): Promise<PoolClient> {
    return new Promise((resolve, reject) => {
      // Not its promise: what has broken by the time that is heard of ends the process, since nobody listens.
      this.pool.connect((error, client) => {
        if (client === undefined) return reject(this.explain(error, { wasSent: false }))
        resolve(client.on('error', ignore))
      })
    })
  }

  /** What an error of the driver's means for the store. */
  explain(error: unknown, { wasSent } = { wasSent: true }): unknown {
    const state = sqlState(error)
    if (state === '53100') return new StoreFullError(this.name, { cause: error })
    if (state === READ_ONLY) return new StoreReadOnlyError(this.name, messageOf(error), { cause: error })
    if (state === LOCKED || CONFLICT.test(state)) return new StoreBusyError(this.name, { cause: error })
    if (state === '42501') return new StoreForbiddenError(this.name, messageOf(error), { cause: error })
    if (error instanceof RedriveError || error instanceof TypeError) return error
    if (state !== '' && !/^(08|53|57)/.test(state)) return error
    return new StoreUnavailableError(this.name, messageOf(error), { cause: error, wasSent })
  }
}

const ignore = () => {}

/** Does something again for as long as other transactions get in its way. Nothing is left of an attempt that was undone. */
function untilNoConflict<T>(attempt: () => Promise<T>): Promise<T> {
  const classify = (error: unknown) => (CONFLICT.test(sqlState(error)) ? 'retryable' : 'final')
  return persist(attempt, UNTIL_NO_CONFLICT, { classify })
}

/** Whether an error says that its connection is of no more use. */
function isBroken(error: unknown): boolean {
  return /^(|08...|57P..|25006)$/.test(sqlState(error))
}

/** What stands in SQL as `redrive.` is in the schema of that name. */
export function inSchema(sql: string, schema: string): string {
  return sql.replaceAll(/\bredrive\./g, `${schema}.`)
}

/** The rows of an answer, whichever client gave it. */
export function rowsOf(answer: Awaited<ReturnType<SqlClient['query']>>): readonly unknown[] {
  return 'rows' in answer ? answer.rows : answer
}

/** PostgreSQL's own code of an error; empty if the error is not PostgreSQL's: the connection broke, or never came. */
export function sqlState(error: unknown): string {
  const code = error instanceof Error && 'code' in error ? error.code : undefined
  return typeof code === 'string' && /^[0-9A-Z]{5}$/.test(code) && code !== 'EPIPE' ? code : ''
}

/** What a statement with one column called `answer` came to. */
export function answerOf(rows: readonly unknown[]): unknown {
  const [row] = rows
  return typeof row === 'object' && row !== null && 'answer' in row ? row.answer : undefined
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
