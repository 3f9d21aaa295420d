import { existsSync } from 'node:fs'
import { resolve } from 'node:path'
import { failureText } from '../../../telemetry/index.js'
import type { Environment } from '../../environment.js'
import { CommandError, UsageError } from '../../errors.js'

const TYPESCRIPT_ERRORS = /^ERR_(UNSUPPORTED_TYPESCRIPT_SYNTAX|INVALID_TYPESCRIPT_SYNTAX|MODULE_NOT_FOUND)$/

/** Imports a module of the user's. `exports` says what it has to export, for the words of an error. */
export async function importModule(file: string, { cwd, load }: Environment, exports: string): Promise<object> {
  const path = resolve(cwd, file)
  if (!existsSync(path)) throw new UsageError(`There is no file '${file}'. Pass the module that exports ${exports}.`)
  try {
    return await load(path)
  } catch (error) {
    if (error instanceof CommandError) throw error
    throw new CommandError(`'${file}' cannot be loaded: ${failureText(error)}${advice(path, error)}`, { cause: error })
  }
}

/** Node only removes types: it knows no enums, and does not find './other.ts' as './other.js'. */
function advice(path: string, error: unknown): string {
  const isTypeScript = /\.[cm]?tsx?$/.test(path)
  const code = error instanceof Error && 'code' in error ? String(error.code) : ''
  if (!isTypeScript || !TYPESCRIPT_ERRORS.test(code)) return ''
  return '. If Node itself does not understand it, install tsx in your project: npm install --save-dev tsx'
}
