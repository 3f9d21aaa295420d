import type { AuditStore, PolicyStore } from '../contract/store.js'
import { checkPage } from '../rules/check.js'
import { numberPlace } from '../rules/cursor.js'
import type { GroupCommit } from './group-commit.js'
import type { Statements } from './statements.js'

/** The policies of a SQLite store. */
export function sqlitePolicies(statements: Statements, commits: GroupCommit): PolicyStore {
  const kept = new Set<string>()
  return {
    async keep(hash, policy) {
      if (kept.has(hash)) return
      await commits.write(() => statements.keepPolicy.run(hash, policy))
      kept.add(hash)
    },
    get: hash => commits.read(() => statements.policy.get(hash)),
  }
}

/** The audit records of a SQLite store. */
export function sqliteAudit(statements: Statements, commits: GroupCommit, now: () => number): AuditStore {
  return {
    async append(records) {
      if (records.length === 0) return
      await commits.write(() => {
        for (const record of records) statements.appendAudit.run(now(), record)
      })
    },
    async page(page) {
      checkPage(page)
      const { limit, after = '0' } = page
      const place = numberPlace(after)
      return commits.read(() => {
        const rows = statements.audit.all(place, limit + 1)
        const found = rows.slice(0, limit)
        const items = found.map(({ record }) => record)
        const end = String(found.at(-1)?.id ?? place)
        return rows.length > limit ? { items, end, next: end } : { items, end }
      })
    },
    async tail(limit) {
      checkPage({ limit })
      return commits.read(() => {
        const rows = statements.auditTail.all(limit).reverse()
        return { items: rows.map(({ record }) => record), end: String(rows.at(-1)?.id ?? 0) }
      })
    },
  }
}
