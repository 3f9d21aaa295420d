import { codecsOf } from '../../../operate/internal.js'
import type { Environment } from '../../environment.js'
import { loadTasks } from '../worker/load-work.js'

type Codecs = ReturnType<typeof codecsOf>

/** How to make an encoded payload readable. */
export const CODEC_ADVICE =
  "Pass --tasks with the module whose tasks have the codec, or name it as 'tasks' in redrive.config.ts."

/** Loads the codecs of the tasks of a project. Its module is run only if something on record is encoded. */
export class ProjectCodecs {
  readonly #file: string | undefined
  readonly #environment: Environment
  #loaded: Promise<Codecs> | undefined

  constructor(file: string | undefined, environment: Environment) {
    this.#file = file
    this.#environment = environment
  }

  /** The codecs, if any of these views needs one. */
  async for(views: readonly { readonly unreadable: string | null }[]): Promise<Codecs> {
    if (views.every(({ unreadable }) => unreadable === null)) return codecsOf()
    this.#loaded ??= loadTasks(this.#file, this.#environment).then(codecsOf)
    return this.#loaded
  }
}
