/** The values of `IS_HELD`. */
export type Held = [seq: number, lane: number, claim: string, id: string]

/** Whether a token still holds a task. */
export const IS_HELD = /* sql */ `seq = ? AND lane = ? AND state = 3 AND claim = ? AND id = ?`
