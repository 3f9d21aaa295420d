/** The process that the command runs in. Tests pass their own. */
export interface Environment {
  readonly stdout: Writer
  readonly stderr: Writer
  readonly env: Readonly<Record<string, string | undefined>>
  readonly cwd: string
  readonly isTTY: { readonly stdin: boolean; readonly stdout: boolean; readonly stderr: boolean }
  /** The width of the terminal. */
  readonly columns?: number
  /** The user of the operating system, for the record. */
  readonly user: string
  /** Asks a question, and resolves with the line that was typed; with an empty one on Ctrl-C or Ctrl-D. */
  readonly prompt: (question: string) => Promise<string>
  /** The folder of the project, where its configuration and its default store are. Default: the current folder. */
  readonly project?: string
  /** The settings of the sweeper in the configuration of the project, if it has any. */
  readonly settings?: object
  /** The options of `notify()` in the configuration of the project, if it has any. */
  readonly notify?: object
  /** Loads a module by its path. */
  readonly load: (path: string) => Promise<object>
  /** Calls back at each SIGINT and SIGTERM. Returns a function that stops that. */
  readonly onSignal: (callback: (signal: string) => void) => () => void
}

/** A stream that takes text. */
export interface Writer {
  /** Returns `false` if the text had to be kept in memory: then `once` calls back when there is room again. */
  write(text: string): unknown
  once?(event: 'drain', callback: () => void): unknown
}
