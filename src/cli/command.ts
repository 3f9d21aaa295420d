import type { Environment } from './environment.js'
import type { ExitCode } from './errors.js'
import type { Console } from './terminal/console.js'

/** What every command works with. */
export interface CommandContext {
  readonly environment: Environment
  readonly console: Console
  /** Called once, with what the command ends with. */
  readonly end: (code: ExitCode) => void
}
