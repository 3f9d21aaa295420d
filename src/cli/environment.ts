/** What the command has from its process. Tests give their own. */
export interface Environment {
  readonly stdout: Writer
  readonly stderr: Writer
  readonly env: Readonly<Record<string, string | undefined>>
  readonly cwd: string
  readonly isTTY: { readonly stdin: boolean; readonly stdout: boolean; readonly stderr: boolean }
  /** How wide the terminal is. */
  readonly columns?: number
  /** Who is at work: the user of the operating system. */
  readonly user: string
  /** Asks a person, and resolves with what they typed; with nothing if they left. */
  readonly prompt: (question: string) => Promise<string>
  /** Calls back at each SIGINT and SIGTERM. Returns what stops that. */
  readonly onSignal: (callback: (signal: string) => void) => () => void
}

/** Where text goes. */
export interface Writer {
  write(text: string): unknown
}
