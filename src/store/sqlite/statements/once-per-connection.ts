import type { Connection, Preparer } from '../driver.js'

/** Prepares statements on a connection when they are first asked for. */
export function oncePerConnection<Prepared extends object>(prepare: (db: Preparer) => Prepared) {
  const prepared = new WeakMap<Connection, Prepared>()
  return (db: Connection): Prepared => {
    let statements = prepared.get(db)
    if (statements === undefined) {
      statements = prepare(db as unknown as Preparer)
      prepared.set(db, statements)
    }
    return statements
  }
}
