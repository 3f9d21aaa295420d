import { existsSync } from 'node:fs'
import { resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { failureText } from '../../telemetry/index.js'
import { CommandError, UsageError } from '../errors.js'
import { shellWord } from '../terminal/visible.js'

/** A module that a command runs, for the words of its errors. */
export interface ModuleUse {
  /** The kind of export that the command needs, as its error names it. */
  readonly exports: string
  /** The command that it is passed to. */
  readonly command: string
}

/** Imports a module of the user's. */
export async function importModule(file: string, cwd: string, { exports, command }: ModuleUse): Promise<object> {
  const path = resolve(cwd, file)
  if (!existsSync(path)) throw new UsageError(`There is no file '${file}'. Pass the module that exports ${exports}.`)
  try {
    return await import(pathToFileURL(path).href)
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ERR_UNKNOWN_FILE_EXTENSION') {
      throw new CommandError(
        `Node cannot load '${file}' directly. For TypeScript, install tsx and run: NODE_OPTIONS='--import tsx' ${command} ${shellWord(file)}`,
        { cause: error },
      )
    }
    throw new CommandError(`'${file}' cannot be loaded: ${failureText(error)}`, { cause: error })
  }
}
