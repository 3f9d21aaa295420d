import type { AuditStore, PolicyStore } from '../contract/store.js'
import { checkPage } from '../rules/check.js'
import { numberPlace } from '../rules/cursor.js'
import { answerOf, type Database, LONG } from './database.js'

/** The policies of a PostgreSQL store. */
export function postgresPolicies(database: Database): PolicyStore {
  const kept = new Set<string>()
  return {
    async keep(hash, policy) {
      if (kept.has(hash)) return
      await database.query('INSERT INTO redrive.policy VALUES ($1, $2) ON CONFLICT DO NOTHING', [hash, policy])
      kept.add(hash)
    },
    async get(hash) {
      const rows = await database.query('SELECT policy AS answer FROM redrive.policy WHERE hash = $1', [hash])
      const policy = answerOf(rows)
      return typeof policy === 'string' ? policy : undefined
    },
  }
}

/** The audit records of a PostgreSQL store. */
export function postgresAudit(database: Database): AuditStore {
  return {
    async append(records) {
      if (records.length > 0) await database.call('append_audit', [JSON.stringify(records), database.at])
    },
    async page(page) {
      checkPage(page)
      const { limit, after = '0' } = page
      const answer = answerOf(await database.query(AUDIT, [numberPlace(after), limit + 1], LONG))
      const rows = JSON.parse(String(answer)) as [id: number, record: string][]
      const found = rows.slice(0, limit)
      const items = found.map(([, record]) => record)
      const end = String(found.at(-1)?.[0] ?? after)
      return rows.length > limit ? { items, end, next: end } : { items, end }
    },
    async tail(limit) {
      checkPage({ limit })
      const answer = answerOf(await database.query(AUDIT_TAIL, [limit], LONG))
      const rows = JSON.parse(String(answer)) as [id: number, record: string][]
      return { items: rows.map(([, record]) => record), end: String(rows.at(-1)?.[0] ?? 0) }
    },
  }
}

const AUDIT_TAIL = /* sql */ `
  SELECT coalesce(json_agg(json_build_array(id, record) ORDER BY id), '[]')::text AS answer
  FROM (SELECT id, record FROM redrive.audit ORDER BY id DESC LIMIT $1) AS page`

const AUDIT = /* sql */ `
  SELECT coalesce(json_agg(json_build_array(id, record)), '[]')::text AS answer
  FROM (SELECT id, record FROM redrive.audit WHERE id > $1 ORDER BY id LIMIT $2) AS page`
