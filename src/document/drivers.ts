/*
 * The objects of other packages that a source takes, by the methods that tell them apart. The declarations of this folder
 * name no driver: whoever uses one kind of source, or only the types of sources, need not install the others.
 */

/** A `Db` of the package `mongodb`. */
export interface MongodbDatabase {
  readonly databaseName: string
  collection(name: string): unknown
  command(command: Record<string, unknown>): Promise<unknown>
}

/** A pool of the package `pg`. */
export interface PostgresPool {
  readonly totalCount: number
  connect(): Promise<unknown>
  query(text: string, values: unknown[]): Promise<{ readonly rows: readonly unknown[] }>
}

/** A connection of the package `better-sqlite3`. */
export interface SqliteConnection {
  readonly name: string
  exec(sql: string): unknown
  pragma(source: string): unknown
  prepare(sql: string): unknown
}
