/** Whether `--short` was given: fewer items and rounds. */
export const isShort = process.env.REDRIVE_BENCH_SHORT === '1'
