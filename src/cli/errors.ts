import { RedriveError } from '../policy/index.js'
import { failureText, withoutSecrets } from '../telemetry/index.js'

/** The exit codes of the command. */
export const ExitCode = {
  done: 0,
  error: 1,
  /** Wrong usage, or refused. */
  usage: 2,
  /** Done in part. */
  partly: 3,
} as const

export type ExitCode = (typeof ExitCode)[keyof typeof ExitCode]

/** Thrown when the command fails. */
export class CommandError extends RedriveError {
  static {
    CommandError.prototype.name = 'CommandError'
  }

  constructor(message: string, options?: ErrorOptions) {
    super('command_failed', message, options)
  }
}

/** Thrown when the command is used wrongly, or refused. Nothing was done. */
export class UsageError extends RedriveError {
  static {
    UsageError.prototype.name = 'UsageError'
  }

  constructor(message: string) {
    super('wrong_usage', message)
  }
}

/** An error in words, without secrets: it may repeat an argument, or what a driver said. */
export function errorText(error: unknown): string {
  return error instanceof RedriveError ? withoutSecrets(error.message) : failureText(error)
}
