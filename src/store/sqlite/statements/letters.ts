/** The columns that order the tasks of a lane, under a name. */
interface Place {
  readonly priority: string
  readonly submitted_at: string
  readonly id: string
}

/**
 * The id of the first dead letter that blocks a lane, of those before a place; NULL if there is none. The lane has to have
 * `blocking`.
 */
export function firstLetter(lane: string, before?: Place): string {
  const isBefore = before
    ? /* sql */ `AND (letter.priority > ${before.priority} OR letter.priority = ${before.priority}
        AND (letter.submitted_at, letter.id) < (${before.submitted_at}, ${before.id}))`
    : ''
  return /* sql */ `(
    SELECT letter.id FROM task AS letter INDEXED BY task_blocking
    WHERE letter.state = 6 AND letter.blocks = ${lane} ${isBefore}
    ORDER BY letter.priority DESC, letter.submitted_at, letter.id LIMIT 1)`
}

/** The columns that order a task of a table, or of an alias of one. */
export function placeIn(name: string): Place {
  return { priority: `${name}.priority`, submitted_at: `${name}.submitted_at`, id: `${name}.id` }
}

/** The first ready task of a lane. */
export function headOf(lane: string): string {
  return /* sql */ `(
    SELECT first.priority, first.submitted_at, first.id FROM task AS first INDEXED BY task_ready
    WHERE first.state = 1 AND first.lane = ${lane}
    ORDER BY first.priority DESC, first.submitted_at, first.id LIMIT 1)`
}
