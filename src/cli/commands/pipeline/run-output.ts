import { statSync } from 'node:fs'
import { openResultLog, type ResultLog, writeResults } from '../../../operate/index.js'
import type { StoreContract } from '../../../store/internal.js'
import type { CommandContext } from '../../command.js'
import { UsageError } from '../../errors.js'
import { suggest } from '../../suggest.js'
import { confirm } from '../../terminal/confirm.js'
import { type RunNotes, sampledPlaces } from './run-notes.js'

/** Writes the results of a run while it runs, and when it has ended. */
export interface RunOutput {
  /** Writes the results that have come. */
  flush(): Promise<void>
  /** Writes what is left. `isOver`: the run has ended. Returns a sentence about the file. */
  finish(isOver: boolean): Promise<string | undefined>
}

/** The output that the notes of a run ask for. */
export async function runOutput(store: StoreContract, run: string, notes: RunNotes): Promise<RunOutput> {
  const { output, isUnordered } = notes
  if (output === undefined) return { flush: async () => {}, finish: async () => undefined }
  if (isUnordered) return unordered(await openResultLog(store, run, output), output)
  return {
    flush: async () => {},
    finish: async isOver => {
      if (!isOver) {
        const command = suggest('pipeline export', { '--out': 'FILE' }, run)
        return `The results are written when the run has ended. To write those there are so far: ${command}`
      }
      const lines = await writeResults(store, run, output, { sample: sampledPlaces(notes) })
      return `${lines} ${lines === 1 ? 'result' : 'results'} in '${output}'.`
    },
  }
}

function unordered(log: ResultLog, path: string): RunOutput {
  let lines = 0
  const flush = async () => {
    lines += await log.append()
  }
  return {
    flush,
    finish: async () => {
      await flush()
      await log.close()
      return `${lines} ${lines === 1 ? 'result' : 'results'} added to '${path}'.`
    },
  }
}

/** Asks before a file is replaced. */
export async function checkOutput({ environment }: CommandContext, path: string, yes?: boolean): Promise<void> {
  if (yes || (statSync(path, { throwIfNoEntry: false })?.size ?? 0) === 0) return
  switch (await confirm(environment, `Replace '${path}'?`)) {
    case 'yes':
      return
    case 'no':
      throw new UsageError('Not confirmed. Nothing was run.')
    case 'unasked':
      throw new UsageError(`'${path}' exists already. Name another file, or pass --yes to replace it.`)
  }
}
