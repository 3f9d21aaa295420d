import { randomBytes } from 'node:crypto'
import { open, rename, rm } from 'node:fs/promises'
import type { Store } from '../store/index.js'
import { contractOf, syncFolder } from '../store/internal.js'
import { type ResultOptions, resultsInOrder } from './results-in-order.js'

/** Text is written once this much has been collected. */
const BUFFER_CHARS = 1 << 20

/**
 * Writes the results of a run's succeeded items to a file, one JSON text per line, in the order of the source. The file
 * appears under its name when it is complete and on disk; one that was there before is replaced. Resolves with the number
 * of lines.
 */
export async function writeResults(
  store: Store,
  run: string,
  path: string,
  options: ResultOptions = {},
): Promise<number> {
  const { runs } = contractOf(store)
  const part = `${path}.part-${randomBytes(4).toString('hex')}`
  // Results may be private.
  const file = await open(part, 'wx', 0o600)
  let lines = 0
  try {
    try {
      let text = ''
      for await (const result of resultsInOrder(runs, run, options)) {
        text += `${result}\n`
        lines++
        if (text.length < BUFFER_CHARS) continue
        await file.writeFile(text)
        text = ''
      }
      await file.writeFile(text)
      await file.sync()
    } finally {
      await file.close()
    }
    await rename(part, path)
  } catch (error) {
    await rm(part, { force: true })
    throw error
  }
  await syncFolder(path)
  return lines
}
