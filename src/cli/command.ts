import type { Environment } from './environment.js'
import type { ExitCode } from './errors.js'
import type { Console } from './terminal/console.js'

/** The context of a command. */
export interface CommandContext {
  readonly environment: Environment
  readonly console: Console
  /** Called once, with the exit code. */
  readonly end: (code: ExitCode) => void
}
