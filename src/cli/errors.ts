import { RedriveError } from '../policy/index.js'
import { failureText } from '../telemetry/index.js'

/** What the command ends with. */
export const ExitCode = {
  done: 0,
  error: 1,
  /** Wrong usage, or refused. */
  usage: 2,
  /** Done in part. */
  partly: 3,
} as const

export type ExitCode = (typeof ExitCode)[keyof typeof ExitCode]

/** The command could not do what it was asked to. */
export class CommandError extends RedriveError {
  static {
    CommandError.prototype.name = 'CommandError'
  }

  constructor(message: string, options?: ErrorOptions) {
    super('command_failed', message, options)
  }
}

/** The command was called in a way that makes no sense, or was refused. Nothing was done. */
export class UsageError extends RedriveError {
  static {
    UsageError.prototype.name = 'UsageError'
  }

  constructor(message: string) {
    super('wrong_usage', message)
  }
}

/** What a person is told of an error: one of ours speaks for itself. */
export function errorText(error: unknown): string {
  return error instanceof RedriveError ? error.message : failureText(error)
}
