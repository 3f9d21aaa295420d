import { constants } from 'node:fs'
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
 * Appends lines to a file, whole and in order, even if several processes append at once.
 *
 * Lines that arrive during a write go out together with the next one, each batch as a single write at the end of the
 * file (O_APPEND). Lines that could not be written stay at the head of the queue until a later write succeeds. The file
 * may be moved, removed or replaced meanwhile, as logrotate does: each batch goes to the file that the path names then.
 */
export class LineFile {
  readonly path: string
  /** The lines not yet on file, oldest first. */
  readonly #lines: string[] = []
  #waitingBytes = 0
  #file: { readonly handle: FileHandle; readonly dev: number; readonly ino: number } | undefined
  #previous: Promise<void> = Promise.resolve()
  #next: Promise<void> | undefined

  constructor(path: string) {
    this.path = path
  }

  /** The size of the lines not yet on file. */
  get waitingBytes(): number {
    return this.#waitingBytes
  }

  /** Queues a line, with its newline. Resolves once it is on file. If the write fails, rejects but keeps the line. */
  append(line: string): Promise<void> {
    this.#lines.push(line)
    this.#waitingBytes += Buffer.byteLength(line)
    return this.flush()
  }

  /** Writes all queued lines. Calls during a write share the next one. */
  flush(): Promise<void> {
    if (this.#next === undefined) {
      this.#next = this.#previous.then(() => {
        this.#next = undefined
        return this.#write()
      })
      // This promise only orders the writes. Whoever asked for a write gets its failure.
      this.#previous = this.#next.catch(() => undefined)
    }
    return this.#next
  }

  /** Writes the remaining lines and closes the file. */
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
      // Reopen the file next time: that cures most problems, and detects a line that was cut short.
      await this.#release().catch(() => undefined)
      const lines = this.#lines.length === 1 ? '1 line waits' : `${this.#lines.length} lines wait`
      const problem = `Cannot write to '${this.path}' (${failureText(error)}): ${lines} for the next write.`
      throw new RedriveError('write_failed', problem, { cause: error })
    }
  }

  /** Forgets the lines that are completely on file. */
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

  /** Opens the file that the path names now. */
  async #current(): Promise<FileHandle> {
    const there = await stat(this.path).catch(() => undefined)
    if (this.#file !== undefined && there?.ino === this.#file.ino && there.dev === this.#file.dev) {
      return this.#file.handle
    }
    await this.#release()
    await mkdir(dirname(this.path), { recursive: true, mode: 0o700 })
    const handle = await openOrCreate(this.path)
    const { dev, ino } = await handle.stat()
    this.#file = { handle, dev, ino }
    return handle
  }

  /** Returns whether the last line has no newline, because its writer crashed or the disk was full. */
  async #isTorn(handle: FileHandle): Promise<boolean> {
    let previousSize: number | undefined
    // Another process's large write can be visible half done, so a line counts as torn only if it stays so.
    for (let settles = 0; settles < MAX_SETTLES; settles++) {
      const { size } = await handle.stat()
      // The file is empty, or is a device or a pipe, which must not be read.
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

const { O_APPEND, O_RDWR } = constants

/**
 * Opens a file to append to. It is created readable by its owner only, and never through a link: whoever made a link to a
 * file that does not exist would choose where it is created.
 */
async function openOrCreate(path: string): Promise<FileHandle> {
  const openExisting = () => open(path, O_APPEND | O_RDWR)
  try {
    return await openExisting()
  } catch (error) {
    if (codeOf(error) !== 'ENOENT') throw error
  }
  try {
    return await open(path, 'ax+', 0o600)
  } catch (error) {
    if (codeOf(error) !== 'EEXIST') throw error
  }
  // Another process has created it, unless it is a link to nowhere.
  return openExisting()
}

function codeOf(error: unknown): unknown {
  return error instanceof Error && 'code' in error ? error.code : undefined
}
