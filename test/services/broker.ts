import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { rmSync } from 'node:fs'

/** Where a broker is. */
export interface BrokerUrls {
  readonly url: string
  /** Where it tells of itself over HTTP; `undefined` for a server that somebody else runs. */
  readonly httpUrl?: string
}

/** How a broker of our own is run. */
export interface BrokerOptions extends BrokerUrls {
  readonly title: string
  readonly folder: string
  readonly command: string
  readonly args: readonly string[]
  readonly env: NodeJS.ProcessEnv
  /** The text that it prints when it is ready. */
  readonly readyText: string
  /** Another process that it cannot do without, started before it. */
  readonly helper?: { readonly command: string; readonly args: readonly string[] }
}

/** A broker that is ours alone: it can be killed, and started again on the same port with the same data. */
export class BrokerServer implements BrokerUrls {
  readonly url: string
  readonly httpUrl: string | undefined
  readonly #options: BrokerOptions
  #process: ChildProcess | undefined
  #helper: ChildProcess | undefined

  /** One that is ready. */
  static async started(options: BrokerOptions): Promise<BrokerServer> {
    const server = new BrokerServer(options)
    try {
      await server.start()
    } catch (error) {
      await server.close()
      throw error
    }
    return server
  }

  // biome-ignore lint/style/useConsistentMemberAccessibility: a constructor has no `#` form.
  private constructor(options: BrokerOptions) {
    this.#options = options
    this.url = options.url
    this.httpUrl = options.httpUrl
    process.once('exit', this.#abandon)
  }

  /** Resolves when it is ready. */
  async start(): Promise<void> {
    const { command, args, env, folder, helper } = this.#options
    if (helper !== undefined) this.#helper ??= spawn(helper.command, helper.args, { env, cwd: folder, stdio: 'ignore' })
    this.#process = spawn(command, args, { env, cwd: folder, stdio: ['ignore', 'pipe', 'pipe'] })
    await this.#ready(this.#process)
  }

  /** kill -9. */
  async kill(): Promise<void> {
    await end(this.#process)
    this.#process = undefined
  }

  async close(): Promise<void> {
    await this.kill()
    await end(this.#helper)
    process.off('exit', this.#abandon)
    this.#removeFolder()
  }

  async #ready(child: ChildProcess): Promise<void> {
    const { title, readyText } = this.#options
    let log = ''
    await new Promise<void>((resolve, reject) => {
      child.once('error', reject)
      child.once('exit', () => reject(new Error(`${title} did not start:\n${log}`)))
      // Read to the end of its life, or the server would stand still once the pipe is full.
      for (const output of [child.stdout, child.stderr]) {
        output?.setEncoding('utf8').on('data', (text: string) => {
          log += text
          if (log.includes(readyText)) resolve()
          log = log.slice(-4000)
        })
      }
    })
  }

  /** A test run that ends before its time leaves nothing behind either. */
  readonly #abandon = () => {
    this.#process?.kill('SIGKILL')
    this.#helper?.kill('SIGKILL')
    this.#removeFolder()
  }

  #removeFolder() {
    rmSync(this.#options.folder, { recursive: true, force: true, maxRetries: 10 })
  }
}

async function end(child: ChildProcess | undefined): Promise<void> {
  if (child === undefined || child.exitCode !== null || child.signalCode !== null) return
  const exit = once(child, 'exit')
  child.kill('SIGKILL')
  await exit
}
