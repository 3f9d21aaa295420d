import type { GroupRow } from '../../rules/groups/group-row.js'
import type { LifeRow } from '../../rules/groups/life-row.js'
import type { Preparer } from '../driver.js'
import { type Held, IS_HELD } from './held.js'

/** A task of a group, with the last failure in its ledger. */
export interface MemberRow {
  readonly seq: number
  readonly state: number
  readonly sequence: number
  readonly ended_at: number
}

/** Groups with their figures. A kind has few of them, so that all are looked at. */
const GROUPS = /* sql */ `
  SELECT failure_group.id, kind, code, error_name, pattern, frames, first_seen, life, marked_at, who, why, details,
    ifnull(sum(seen), 0) AS seen, ifnull(sum(retrying), 0) AS retrying, ifnull(sum(dead), 0) AS dead,
    max(first_seen, ifnull(max(last_seen), 0)) AS last_seen,
    json_group_array(json_array(hour, seen)) FILTER (WHERE hour >= :from) AS hours
  FROM failure_group LEFT JOIN group_tally ON group_tally.failure_group = failure_group.id`

/** Keeps failure groups and their figures. */
export function groupStatements(db: Preparer) {
  return {
    group: db.prepare<object, GroupRow>(/* sql */ `${GROUPS} WHERE id = :id GROUP BY id`),
    groups: db.prepare<object, GroupRow>(/* sql */ `
      SELECT * FROM (${GROUPS} WHERE :kind IS NULL OR kind = :kind GROUP BY id)
      WHERE last_seen < :last_seen OR (last_seen = :last_seen AND id < :id)
      ORDER BY last_seen DESC, id DESC
      LIMIT :limit + 0`),
    groupLife: db.prepare<[string], LifeRow>(/* sql */ `
      SELECT life, marked_at, who, why, details FROM failure_group WHERE id = ?`),
    markGroup: db.prepare(/* sql */ `
      UPDATE failure_group SET life = :life, marked_at = :marked_at, who = :who, why = :why, details = :details
      WHERE id = :id`),
    groupsOfKind: db
      .prepare<[string, number], number>(/* sql */ `
        SELECT count(*) FROM (
          SELECT 1 FROM failure_group INDEXED BY failure_group_kind
          WHERE kind = ? AND id NOT LIKE 'other:%' AND id NOT LIKE 'lost:%'
          LIMIT ? + 0
        )`)
      .pluck(),
    otherGroupsOfKind: db
      .prepare<[string, number], number>(/* sql */ `
        SELECT count(*) FROM (
          SELECT 1 FROM failure_group INDEXED BY failure_group_kind WHERE kind = ? AND id LIKE 'other:%' LIMIT ? + 0
        )`)
      .pluck(),
    addGroup: db.prepare(/* sql */ `
      INSERT INTO failure_group (id, kind, code, error_name, pattern, frames, first_seen) VALUES (?, ?, ?, ?, ?, ?, ?)
      ON CONFLICT DO NOTHING`),
    addToGroup: db.prepare(/* sql */ `
      INSERT INTO group_tally (failure_group, hour, seen, retrying, dead, last_seen) VALUES (?, ?, ?, ?, ?, ?)
      ON CONFLICT (failure_group, hour) DO UPDATE
      SET seen = seen + excluded.seen, retrying = retrying + excluded.retrying, dead = dead + excluded.dead,
          last_seen = max(last_seen, excluded.last_seen)`),
    /** The group of a running task that nobody asked to cancel. */
    groupToLeave: db
      .prepare<Held, string>(/* sql */ `
        SELECT failure_group FROM task WHERE ${IS_HELD} AND cancel_requested = 0 AND failure_group IS NOT NULL`)
      .pluck(),
    leaveGroup: db.prepare(/* sql */ `UPDATE task SET failure_group = NULL WHERE seq = ?`),
    addUpHours: db.prepare(/* sql */ `
      INSERT INTO group_tally (failure_group, hour, seen, retrying, dead, last_seen)
      SELECT failure_group, 0, sum(seen), sum(retrying), sum(dead), max(last_seen) FROM group_tally
      WHERE hour > 0 AND hour < ?
      GROUP BY failure_group
      ON CONFLICT (failure_group, hour) DO UPDATE
      SET seen = seen + excluded.seen, retrying = retrying + excluded.retrying, dead = dead + excluded.dead,
          last_seen = max(last_seen, excluded.last_seen)`),
    forgetHours: db.prepare(/* sql */ `DELETE FROM group_tally WHERE hour > 0 AND hour < ?`),
    idleGroups: db
      .prepare<[number], string>(/* sql */ `
        SELECT id FROM failure_group AS known LEFT JOIN group_tally ON group_tally.failure_group = known.id
        GROUP BY id
        HAVING max(first_seen, ifnull(max(last_seen), 0)) <= ?
          AND ifnull(sum(retrying), 0) = 0 AND ifnull(sum(dead), 0) = 0
          AND NOT EXISTS (SELECT 1 FROM task WHERE task.failure_group = known.id AND state <> 3)`)
      .pluck(),
    /** A member of a group, with the last failure in its ledger. */
    groupMember: db.prepare<[string, string], MemberRow>(/* sql */ `
      SELECT task.seq, task.state, ledger.sequence, ledger.ended_at
      FROM task JOIN ledger ON ledger.task = task.seq
      WHERE task.id = ? AND task.failure_group = ? AND ledger.failure_group = task.failure_group
      ORDER BY ledger.sequence DESC
      LIMIT 1`),
    setGroup: db.prepare(/* sql */ `UPDATE task SET failure_group = :group WHERE seq = :seq`),
    setLedgerGroup: db.prepare(/* sql */ `
      UPDATE ledger SET failure_group = :group WHERE task = :seq AND sequence = :sequence`),
    /** Whether a task is in a group. A discarded letter is, too: it may come back. */
    isNamed: db
      .prepare<{ group: string }, number>(/* sql */ `
        SELECT EXISTS (SELECT 1 FROM task WHERE failure_group = :group AND state <> 3)
          OR ifnull((SELECT sum(retrying) FROM group_tally WHERE failure_group = :group), 0) > 0`)
      .pluck(),
    inheritFirstSeen: db.prepare(/* sql */ `
      UPDATE failure_group
      SET first_seen = min(first_seen, (SELECT first_seen FROM failure_group AS gone WHERE gone.id = :left))
      WHERE id = :heir`),
    setFirstSeen: db.prepare(/* sql */ `UPDATE failure_group SET first_seen = min(first_seen, ?) WHERE id = ?`),
    inheritFigures: db.prepare(/* sql */ `
      INSERT INTO group_tally (failure_group, hour, seen, retrying, dead, last_seen)
      SELECT :heir, hour, seen, 0, 0, last_seen FROM group_tally WHERE failure_group = :left AND seen > 0
      ON CONFLICT (failure_group, hour) DO UPDATE
      SET seen = seen + excluded.seen, last_seen = max(last_seen, excluded.last_seen)`),
    clearSeen: db.prepare(/* sql */ `UPDATE group_tally SET seen = 0, last_seen = 0 WHERE failure_group = ?`),
    forgetGroup: db.prepare(/* sql */ `DELETE FROM failure_group WHERE id = ?`),
    forgetFigures: db.prepare(/* sql */ `DELETE FROM group_tally WHERE failure_group = ?`),
  }
}
