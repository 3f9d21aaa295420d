import { setTimeout as sleep } from 'node:timers/promises'
import type { PoolClient, QueryResult } from 'pg'
import { persist } from '../../attempt/index.js'
import { policy, RedriveError } from '../../policy/index.js'
import type { Clock } from '../../time/index.js'
import {
  StoreBusyError,
  StoreClosedError,
  StoreForbiddenError,
  StoreFullError,
  StoreNewerError,
  StoreNotReadyError,
  StoreReadOnlyError,
  StoreRefusedError,
  StoreRolledBackError,
  StoreUnavailableError,
} from '../contract/errors.js'
import { cancelStatement } from './cancel-statement.js'
import type { Pool, SqlClient } from './driver.js'
import { Loan } from './loan.js'
import { thisRelease } from './release.js'
import { lend, type PostgresTransaction } from './transaction.js'

/** Calls that read or write much may take this many times as long as others. */
export const LONG = 8

/** Two transactions conflicted, and this one was rolled back: PostgreSQL asks to try it again. */
const CONFLICT = /^(40001|40P01)$/
/** Full jitter, so that transactions that met do not meet again. */
const UNTIL_NO_CONFLICT = /* @__PURE__ */ policy({ attempts: 21, backoff: { base: '1ms', max: '200ms' } })

/** A lock was not available within the lock timeout. */
export const LOCKED = '55P03'

/** The primary may have become a standby, or its name may lead to one. */
const READ_ONLY = '25006'

/** The role lacks a right. */
export const FORBIDDEN = '42501'

const DISK_FULL = '53100'

/** The server, or the role, has as many connections as it may have. */
const TOO_MANY_CONNECTIONS = '53300'

const NO_DATABASE = '3D000'

const WRONG_PASSWORD = '28P01'
/** No such role, or `pg_hba.conf` does not let it in. */
const NOT_LET_IN = '28000'

/** The statement exceeded the role's statement timeout, or an operator cancelled it. */
const CANCELED = '57014'

/** There is no such function, column or table: the store may have been migrated by a newer release. */
const MISSING = /^(42883|42703|42P01)$/

/** The schema that a store has, and the oldest whose code may work with it. */
export interface StoreVersions {
  readonly version: number
  readonly oldest: number
}

/** How the functions of a schema are called. */
export interface DatabaseOptions {
  readonly pool: Pool
  /** Another pool of the same store, whose connections are used while the server allows no more. */
  readonly spare?: Pool
  readonly schema: string
  /** The store's name in error messages. */
  readonly name: string
  /** A call that takes longer has lost its connection: all calls are short. */
  readonly timeoutMs: number
  /** A test's clock. Default: the database's. */
  readonly clock: Clock | undefined
  /** The function that plans calls ahead: each connection calls it before its first call. Default: none. */
  readonly planner?: string
}

/** Calls functions of a schema, and runs statements on it. */
export interface Sql {
  call(fn: string, values: unknown[]): Promise<unknown>
  query(text: string, values: unknown[]): Promise<readonly unknown[]>
  /** The time that functions take as `at`. */
  readonly at: number | null
}

/**
 * Calls the functions of a schema on a pool. Each call is one statement, and so one transaction. It needs no session state
 * and no prepared statements, so any pooler may stand in between.
 */
export class Database {
  readonly pool: Pool
  readonly schema: string
  readonly name: string
  readonly #spare: Pool | undefined
  readonly #timeoutMs: number
  readonly #clock: Clock | undefined
  readonly #planner: string | undefined
  readonly #planned = new WeakSet<PoolClient>()
  /** The statements that call functions, by name and number of arguments. */
  readonly #callTexts = new Map<string, string>()
  /** Rejects the calls that wait for a connection. */
  readonly #waiting = new Set<(error: unknown) => void>()
  readonly #loans = new Set<Loan>()
  #isClosed = false

  constructor({ pool, spare, schema, name, timeoutMs, clock, planner }: DatabaseOptions) {
    this.pool = pool
    this.#spare = spare
    this.schema = schema
    this.name = name
    this.#timeoutMs = timeoutMs
    this.#clock = clock
    this.#planner = planner
  }

  /** The time that functions take as `at`: a test's, or `null` for the database's own clock. */
  get at(): number | null {
    return this.#clock === undefined ? null : Math.floor(this.#clock.now())
  }

  /** Calls a function of the schema, and returns its result. */
  call(fn: string, values: unknown[], patience = 1): Promise<unknown> {
    const text = this.#callText(fn, values.length)
    return this.#connected(async client => {
      if (this.#planner !== undefined && !this.#planned.has(client)) await this.#plan(client, this.#planner)
      return this.#run(client, text, values, patience)
    }).then(answerOf)
  }

  /** Plans calls ahead. If that fails, they are planned as they come. */
  async #plan(client: PoolClient, planner: string): Promise<void> {
    this.#planned.add(client)
    try {
      await this.#run(client, this.#callText(planner, 0), [], 1)
    } catch (error) {
      if (isBroken(error)) throw error
    }
  }

  /** Calls a function within a transaction of the caller's own. Its errors are the driver's, but for a lock that others hold. */
  async callIn(client: SqlClient, fn: string, values: unknown[]): Promise<unknown> {
    try {
      return answerOf(rowsOf(await client.query(this.#callText(fn, values.length), values)))
    } catch (error) {
      throw sqlState(error) === LOCKED ? await this.#explained(error) : error
    }
  }

  /** The rows of a statement. `redrive.` in it stands for the schema. */
  async query(text: string, values: unknown[], patience = 1): Promise<readonly unknown[]> {
    const run = async (tx: PostgresTransaction) => (await tx.query(inSchema(text, this.schema), values)).rows
    try {
      return await this.transaction(run, { patience, isOurs: true })
    } catch (error) {
      throw await this.#explained(error)
    }
  }

  /** The same without a transaction, for statements that mean the same on every search path. */
  queryAlone(text: string, values: unknown[]): Promise<readonly unknown[]> {
    return this.#connected(client => this.#run(client, text, values, 1))
  }

  /** Uses a connection; again after a conflict. */
  async #connected<T>(use: (client: PoolClient) => Promise<T>): Promise<T> {
    try {
      return await untilNoConflict(() => this.#lend(({ client }) => use(client)))
    } catch (error) {
      throw await this.#explained(error)
    }
  }

  /**
   * Runs a function within a transaction of its own; all of it again after a conflict. Each statement, and the time between
   * two of them, is limited on both sides: on the server, since this process may be gone without a word, and nobody else
   * gets the rows that it has locked; here, since the server may be.
   *
   * Where all statements are `isOurs`, names without a schema are PostgreSQL's own: on the search path of the role, a
   * stranger's function in `public` would be called wherever its arguments fit better.
   */
  async transaction<T>(
    work: (tx: PostgresTransaction) => Promise<T>,
    { patience = LONG, isOurs = false }: { readonly patience?: number; readonly isOurs?: boolean } = {},
  ): Promise<T> {
    const limitMs = patience * Math.ceil(this.#timeoutMs)
    let isWork = false
    const attempt = () =>
      this.#lend(async loan => {
        const { client } = loan
        const run = (text: string) => this.#send(client, text, [], 1)
        isWork = false
        await run(begin(limitMs, isOurs))
        try {
          isWork = true
          const result = await lend(client, work, {
            // Later than the server, whose error says more.
            silenceMs: limitMs + this.#timeoutMs,
            onSilence: () => loan.break(new StoreUnavailableError(this.name, SILENCE, { wasSent: true })),
          })
          isWork = false
          // PostgreSQL answers so to the COMMIT of a transaction in which a statement failed.
          if ((await run('COMMIT')).command === 'ROLLBACK') throw new StoreRolledBackError(this.name)
          return result
        } catch (error) {
          await run('ROLLBACK').then(() => loan.keep(), ignore)
          throw error
        }
      })
    try {
      return await untilNoConflict(attempt)
    } catch (error) {
      // Errors of the caller's own function are passed on as they are.
      throw isWork ? error : await this.#explained(error)
    }
  }

  /** Runs several calls in one transaction. */
  callTogether<T>(work: (call: Sql['call']) => Promise<T>): Promise<T> {
    return this.together(({ call }) => work(call))
  }

  /** Runs several calls and statements in one transaction. */
  async together<T>(work: (sql: Sql) => Promise<T>): Promise<T> {
    try {
      return await this.transaction(
        tx =>
          work({
            call: async (fn, values) => answerOf((await tx.query(this.#callText(fn, values.length), values)).rows),
            query: async (text, values) => (await tx.query(inSchema(text, this.schema), values)).rows,
            at: this.at,
          }),
        { isOurs: true },
      )
    } catch (error) {
      throw await this.#explained(error)
    }
  }

  /** Refuses all further calls, and those that wait for a connection. Others have as long as an answer may take. */
  async close(): Promise<void> {
    this.#isClosed = true
    for (const reject of this.#waiting) reject(new StoreClosedError(this.name))
    await this.inTime(Promise.all([...this.#loans].map(({ returned }) => returned)))
    for (const loan of this.#loans) loan.break(new StoreClosedError(this.name))
  }

  /** Waits for something, but no longer than an answer may take. */
  async inTime(work: Promise<unknown>): Promise<void> {
    const timer = new AbortController()
    await Promise.race([work, sleep(this.#timeoutMs, undefined, timer)]).finally(() => timer.abort())
  }

  async #run(client: PoolClient, text: string, values: unknown[], patience: number): Promise<readonly unknown[]> {
    return (await this.#send(client, text, values, patience)).rows
  }

  async #send(client: PoolClient, text: string, values: unknown[], patience: number): Promise<QueryResult> {
    const query = { text, values, query_timeout: patience * this.#timeoutMs }
    try {
      return await client.query(query)
    } catch (error) {
      if (isTimeout(error)) await cancelStatement(client)
      throw error
    }
  }

  #callText(fn: string, count: number): string {
    const name = `${fn}/${count}`
    let text = this.#callTexts.get(name)
    if (text === undefined) {
      const parameters = Array.from({ length: count }, (_, index) => `$${index + 1}`)
      text = `SELECT ${this.schema}.${fn}(${parameters.join(', ')}) AS answer`
      this.#callTexts.set(name, text)
    }
    return text
  }

  /**
   * Lends a connection. One that failed is not used again, since an answer may still be on its way, unless it is to be kept:
   * it has been rolled back.
   */
  async #lend<T>(use: (loan: Loan) => Promise<T>): Promise<T> {
    if (this.#isClosed) throw new StoreClosedError(this.name)
    const loan = await this.#connect().catch(error => {
      throw this.explain(error, { wasSent: false })
    })
    this.#loans.add(loan)
    try {
      return await Promise.race([use(loan), loan.broken])
    } catch (error) {
      loan.isDamaged ||= isBroken(error)
      throw error
    } finally {
      this.#loans.delete(loan)
      loan.end()
    }
  }

  /** Takes a connection of the pool, or of the spare one while there may be no more: it may have idle ones. */
  async #connect(): Promise<Loan> {
    try {
      return await this.#connectTo(this.pool)
    } catch (error) {
      const isFull = sqlState(error) === TOO_MANY_CONNECTIONS
      if (isFull && this.#spare !== undefined) return this.#connectTo(this.#spare)
      throw error
    }
  }

  #connectTo(pool: Pool): Promise<Loan> {
    return new Promise((resolve, reject) => {
      // A pool of the caller's own may let its callers wait for ever.
      const timer = setTimeout(() => refuse(new Error(NO_CONNECTION)), this.#timeoutMs)
      let isOver = false
      const refuse = (error: unknown) => {
        isOver = true
        clearTimeout(timer)
        this.#waiting.delete(refuse)
        reject(error)
      }
      this.#waiting.add(refuse)
      // A callback, not the pool's promise: a connection that breaks before that resolves would end the process, since
      // nobody listens to its event yet.
      pool.connect((error, client) => {
        if (client === undefined) return refuse(error)
        if (isOver) return client.release()
        clearTimeout(timer)
        this.#waiting.delete(refuse)
        resolve(new Loan(client, error => this.explain(error)))
      })
    })
  }

  /** Throws if a newer release has migrated the store, and this one can no longer work with it. */
  async refuseNewer({ version, oldest }: StoreVersions): Promise<void> {
    const ours = await thisRelease()
    if (oldest > ours.version) throw new StoreNewerError(this.name, version, ours.version)
  }

  /** The same as `explain`. For a lock, it asks the server who holds it; for a missing function, who migrated the store. */
  async #explained(error: unknown): Promise<unknown> {
    if (MISSING.test(sqlState(error))) {
      const versions = await this.#lend(({ client }) =>
        this.#run(client, inSchema(VERSIONS, this.schema), [], 1),
      ).catch(ignore)
      const [found] = (versions ?? []) as readonly StoreVersions[]
      const newer = found && (await this.refuseNewer(found).catch(newer => newer))
      return newer ?? new StoreNotReadyError(this.name, `is not complete: ${messageOf(error)}`, { cause: error })
    }
    if (sqlState(error) !== LOCKED) return this.explain(error)
    const text = `SELECT ${this.schema}.lock_holder(NULL) AS answer`
    const holder = await this.#lend(({ client }) => this.#run(client, text, [], 1)).then(answerOf, ignore)
    return new StoreBusyError(this.name, { cause: error, holder: typeof holder === 'string' ? holder : undefined })
  }

  /** Translates a driver's error into the store's. */
  explain(error: unknown, { wasSent } = { wasSent: true }): unknown {
    if (error instanceof RedriveError || error instanceof TypeError) return error
    const state = sqlState(error)
    if (state === DISK_FULL) return new StoreFullError(this.name, { cause: error })
    if (state === READ_ONLY) return new StoreReadOnlyError(this.name, messageOf(error), { cause: error })
    if (state === LOCKED || CONFLICT.test(state)) return new StoreBusyError(this.name, { cause: error })
    if (state === NO_DATABASE) {
      const advice = 'Create it, with createdb for example, or correct the URL.'
      return new StoreNotReadyError(this.name, `is not there: ${messageOf(error)}`, { advice, cause: error })
    }
    const login = loginAdvice(state, messageOf(error))
    if (login !== undefined)
      return new StoreForbiddenError(this.name, messageOf(error), { advice: login, cause: error })
    if (state === FORBIDDEN) return new StoreForbiddenError(this.name, messageOf(error), { cause: error })
    if (state !== '' && !/^(08|53|57|58|XX)/.test(state))
      return new StoreRefusedError(this.name, messageOf(error), { cause: error })
    return new StoreUnavailableError(this.name, messageOf(error), { cause: error, wasSent })
  }
}

/** Says what to do about a login that was refused; `undefined` for any other error. */
function loginAdvice(state: string, message: string): string | undefined {
  if (state === WRONG_PASSWORD) return 'Check the user and the password in the URL.'
  // The driver's own error: it has no code.
  if (message.includes('client password must be a string')) {
    return 'The server asks for a password, and the URL has none: add it there, or set PGPASSWORD.'
  }
  if (state !== NOT_LET_IN) return undefined
  if (message.includes('no encryption')) return "It may want TLS: add 'sslmode=require' to the URL."
  if (message.includes('pg_hba.conf')) return 'Its pg_hba.conf has to allow this user, database and address.'
  return 'Check the user in the URL, or create the role, with createuser for example.'
}

const ignore = () => {}

/** As the driver says it. */
const isTimeout = (error: unknown) => messageOf(error) === 'Query read timeout'

const VERSIONS = 'SELECT version, oldest FROM redrive.schema_version'

const NO_CONNECTION = 'the pool gave no connection in time'
const SILENCE = 'a transaction sent nothing, or got no answer, for too long'

/**
 * Begins a transaction whose statements, and the time between them, are limited. Waiting for a lock is limited a little more,
 * so that the error says what the statement waited for.
 */
function begin(limitMs: number, isOurs: boolean): string {
  const lockMs = Math.ceil((limitMs * 7) / 8)
  const limits = `SET LOCAL idle_in_transaction_session_timeout = ${limitMs}; SET LOCAL statement_timeout = ${limitMs}; SET LOCAL lock_timeout = ${lockMs}`
  return `BEGIN; ${limits}${isOurs ? '; SET LOCAL search_path = pg_catalog' : ''}`
}

/** Whether the database is away, so that the rest of a batch would fail too. A statement that took too long might pass alone. */
export function isOutage(error: unknown): boolean {
  if (error instanceof StoreUnavailableError) return sqlState(error.cause) !== CANCELED
  return error instanceof StoreReadOnlyError
}

/** Repeats a transaction for as long as it conflicts with others. A conflict leaves nothing of it behind. */
function untilNoConflict<T>(attempt: () => Promise<T>): Promise<T> {
  const classify = (error: unknown) => (CONFLICT.test(sqlState(error)) ? 'retryable' : 'final')
  return persist(attempt, UNTIL_NO_CONFLICT, { classify })
}

/** Whether a connection is of no more use after this error. */
function isBroken(error: unknown): boolean {
  return /^(|08...|57P..|25006)$/.test(sqlState(error))
}

/** Replaces `redrive.` in a statement by the name of the schema. */
export function inSchema(sql: string, schema: string): string {
  return sql.replaceAll(/\bredrive\./g, `${schema}.`)
}

/** The rows of an answer, whichever client gave it. */
export function rowsOf(answer: Awaited<ReturnType<SqlClient['query']>>): readonly unknown[] {
  return 'rows' in answer ? answer.rows : answer
}

/**
 * PostgreSQL's code of an error; empty if the error is not PostgreSQL's, as when the connection broke. Its codes have a digit,
 * Node's of the same length have none: `EPIPE`, `EPERM`.
 */
export function sqlState(error: unknown): string {
  const code = error instanceof Error && 'code' in error ? error.code : undefined
  return typeof code === 'string' && /^(?=.*\d)[0-9A-Z]{5}$/.test(code) ? code : ''
}

/** The result of a statement with one row and one column called `answer`. */
export function answerOf(rows: readonly unknown[]): unknown {
  const [row] = rows
  return typeof row === 'object' && row !== null && 'answer' in row ? row.answer : undefined
}

/** A number of tasks as SQL's `int` holds it. */
export function int4(count: number): number {
  return Math.min(count, 2 ** 31 - 1)
}

/** A duration as SQL's `bigint` holds it, in whole milliseconds. */
export function wholeMs(ms: number): number {
  return Math.min(Math.ceil(ms), Number.MAX_SAFE_INTEGER)
}

/** The text of an error, whatever was thrown. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
