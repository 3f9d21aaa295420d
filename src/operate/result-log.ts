import { constants } from 'node:fs'
import { lstat, open } from 'node:fs/promises'
import { FinalError } from '../policy/index.js'
import { commandLine } from '../policy/internal.js'
import type { Store } from '../store/index.js'
import { contractOf, RunNotFoundError, syncFolder } from '../store/internal.js'

/** Appends the results of a run to a file as they come. */
export interface ResultLog {
  /** Appends all results that have not been written yet. Resolves with their number. */
  append(): Promise<number>
  /** Closes the file. Call `append` first for what is left. */
  close(): Promise<void>
}

const { O_APPEND, O_CREAT, O_WRONLY, O_NOFOLLOW } = constants

/** The results that are appended and noted at once. */
const BATCH = 500

/** Thrown when the file of a run's results is not as the run has left it. Nothing was written. */
export class ResultFileError extends FinalError {
  static {
    ResultFileError.prototype.name = 'ResultFileError'
  }

  constructor(problem: string) {
    super(problem, { code: 'result_file_changed' })
  }
}

/**
 * Opens the file of a run's results, one JSON text per line. The run notes the length of the file after each batch is on
 * disk. Whatever is behind that length was not noted, and is cut off here: so no line is torn or written twice, wherever
 * the process dies. One process at a time may do this.
 */
export async function openResultLog(store: Store, run: string, path: string): Promise<ResultLog> {
  const { runs } = contractOf(store)
  const record = await runs.get(run)
  if (record === undefined) throw new RunNotFoundError(run)
  const { outputBytes } = record
  const changed = (how: string) =>
    new ResultFileError(
      `'${path}' ${how}, so the results of the run '${run}' cannot be appended to it. To write all of them to a file, run: ${commandLine('pipeline export', { '--out': 'FILE' }, run)}`,
    )
  const found = await lstat(path).catch(() => undefined)
  if (found !== undefined && !found.isFile()) throw changed('is no regular file')
  const size = found?.size
  if (outputBytes > 0 && size === undefined) throw changed('is gone')
  if (outputBytes > (size ?? 0)) throw changed('is shorter than it was')
  // Results may be private, and must not go through a link that somebody put there meanwhile.
  const file = await open(path, O_APPEND | O_CREAT | O_WRONLY | O_NOFOLLOW, 0o600)
  let bytes = outputBytes
  try {
    if (bytes === 0) await file.chmod(0o600)
    await file.truncate(bytes)
    if (size === undefined) await syncFolder(path)
  } catch (error) {
    await file.close()
    throw error
  }

  const append = async () => {
    let lines = 0
    for (;;) {
      const rows = await runs.outputs(run, BATCH)
      if (rows.length === 0) return lines
      if ((await file.stat()).size !== bytes) throw changed('was changed by another process')
      const text = Buffer.from(rows.map(({ result }) => `${result ?? 'null'}\n`).join(''))
      await file.appendFile(text)
      await file.datasync()
      bytes += text.length
      const ids = rows.map(({ id }) => id)
      await runs.written(run, ids, bytes)
      lines += rows.length
    }
  }
  return { append, close: () => file.close() }
}
