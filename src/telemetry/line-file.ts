import { type FileHandle, mkdir, open, stat } from 'node:fs/promises'
import { dirname } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { RedriveError } from '../policy/index.js'
import { failureText } from './describe-failure.js'

const NEWLINE = 10
/** How long another process may take between the parts of one write. */
const SETTLE_MS = 10
const MAX_SETTLES = 10

/**
 * A file that lines are appended to, in whole lines and in their order, also by several processes at once.
 *
 * Lines gather while a write is under way and go out together with the next, each batch as one write at the end of the
 * file (O_APPEND). What could not be written stays at the head of the queue until a later write succeeds. The file may
 * be moved, removed or replaced meanwhile, as logrotate does: each batch goes to the file that the path names then.
 */
export class LineFile {
  readonly path: string
  /** Not on file yet, oldest first. */
  readonly #lines: string[] = []
  #waitingBytes = 0
  #file: { readonly handle: FileHandle; readonly dev: number; readonly ino: number } | undefined
  #previous: Promise<void> = Promise.resolve()
  #next: Promise<void> | undefined

  constructor(path: string) {
    this.path = path
  }

  /** The size of the lines that are not on file yet. */
  get waitingBytes(): number {
    return this.#waitingBytes
  }

  /** Takes a line, with its newline. Resolves when it is on file; rejects when it is not, and keeps it all the same. */
  append(line: string): Promise<void> {
    this.#lines.push(line)
    this.#waitingBytes += Buffer.byteLength(line)
    return this.flush()
  }

  /** Writes every line taken so far. All who ask while a write is under way share the next one. */
  flush(): Promise<void> {
    if (this.#next === undefined) {
      this.#next = this.#previous.then(() => {
        this.#next = undefined
        return this.#write()
      })
      // Only a turn to wait for: whoever asked for the write hears of its failure.
      this.#previous = this.#next.catch(() => undefined)
    }
    return this.#next
  }

  /** Writes what is left and lets go of the file. */
  async close(): Promise<void> {
    await this.flush()
    await this.#release()
  }

  async #write(): Promise<void> {
    const count = this.#lines.length
    if (count === 0) return
    try {
      const handle = await this.#current()
      const closing = (await this.#isTorn(handle)) ? '\n' : ''
      const data = Buffer.from(closing + this.#lines.slice(0, count).join(''))
      const { bytesWritten } = await handle.write(data)
      this.#written(count, bytesWritten - closing.length)
      if (bytesWritten < data.length) throw new Error(`only ${bytesWritten} of ${data.length} bytes were written`)
    } catch (error) {
      // Opened afresh next time, which is the way out of most troubles, and finds a line that was cut short.
      await this.#release().catch(() => undefined)
      const lines = this.#lines.length === 1 ? '1 line waits' : `${this.#lines.length} lines wait`
      const problem = `Cannot write to '${this.path}' (${failureText(error)}): ${lines} for the next write.`
      throw new RedriveError('write_failed', problem, { cause: error })
    }
  }

  /** Forgets the lines that are on file as a whole. */
  #written(count: number, bytes: number): void {
    let whole = 0
    for (let left = bytes; whole < count; whole++) {
      const size = Buffer.byteLength(this.#lines[whole] ?? '')
      if (size > left) break
      left -= size
      this.#waitingBytes -= size
    }
    this.#lines.splice(0, whole)
  }

  /** The file that the path names now. */
  async #current(): Promise<FileHandle> {
    const there = await stat(this.path).catch(() => undefined)
    if (this.#file !== undefined && there?.ino === this.#file.ino && there.dev === this.#file.dev) {
      return this.#file.handle
    }
    await this.#release()
    await mkdir(dirname(this.path), { recursive: true, mode: 0o700 })
    const handle = await open(this.path, 'a+', 0o600)
    const { dev, ino } = await handle.stat()
    this.#file = { handle, dev, ino }
    return handle
  }

  /** Whether the last line has no end: its writer crashed, or the disk was full. */
  async #isTorn(handle: FileHandle): Promise<boolean> {
    let previousSize: number | undefined
    // A large write of another process can be seen half done, so a line is torn only if it stays so.
    for (let settles = 0; settles < MAX_SETTLES; settles++) {
      const { size } = await handle.stat()
      // Empty, or no file at all but a device or a pipe, from which nothing must be read.
      if (size === 0) return false
      const { bytesRead, buffer } = await handle.read(Buffer.alloc(1), 0, 1, size - 1)
      if (bytesRead === 0 || buffer[0] === NEWLINE) return false
      if (size === previousSize) return true
      previousSize = size
      await wait(SETTLE_MS)
    }
    return true
  }

  async #release(): Promise<void> {
    const file = this.#file
    this.#file = undefined
    await file?.handle.close()
  }
}
