import { createHash } from 'node:crypto'
import { OptionError } from '../policy/index.js'
import type { RunHandle } from './run-handle.js'
import type { ResumeOptions, RunOptions } from './run-options.js'
import type { RunResult } from './run-result.js'
import type { Source } from './source.js'
import type { Stage, StageCode } from './stage.js'

/** The name of a pipeline, or its name with options. */
export type PipelineName = string | PipelineOptions

/** Options of `pipeline()`. */
export interface PipelineOptions {
  /** Letters, digits and _.- (at most 90). Runs belong to it. */
  readonly name: string
  /** On record with every attempt. Default: a short hash of the names and the code of its stages. */
  readonly version?: string
}

/** Stages that items pass through, one after another. Made by `pipeline()`. */
export class Pipeline<In, Out> {
  readonly name: string
  readonly version: string
  readonly stages: readonly StageCode[]

  constructor(name: PipelineName, stages: readonly StageCode[]) {
    const options = typeof name === 'string' ? { name } : name
    checkName(options.name)
    checkStages(options.name, stages)
    this.name = options.name
    this.version = options.version ?? versionOf(stages)
    this.stages = stages
  }

  /** Runs all items of a source through the stages. Resolves with the result, whatever it is: see `RunResult.orThrow`. */
  async run(source: Source<In>, options: RunOptions<In>): Promise<RunResult> {
    const run = await this.start(source, options)
    return run.result
  }

  /** Opens a run, begins to read its source and to work on it. Resolves when the run is on record. */
  start(_source: Source<In>, _options: RunOptions<In>): Promise<RunHandle<Out>> {
    return Promise.reject(new Error('Not ready yet.'))
  }

  /** Goes on with a run that was stopped, paused, interrupted, or whose process died. */
  resume(_id: string, _options: ResumeOptions<In>): Promise<RunHandle<Out>> {
    return Promise.reject(new Error('Not ready yet.'))
  }
}

/**
 * Defines a pipeline. Each stage takes what the one before it returns, and its types follow from that: only the input of
 * the first stage has to be declared.
 *
 * ```ts
 * const enrich = pipeline(
 *   'enrich',
 *   stage('fetch', async (url: string, { signal }) => (await fetch(url, { signal })).text(), { concurrency: 20 }),
 *   stage('measure', text => ({ text, length: text.length })),
 *   stage('filter', page => (page.length > 100 ? page : skip('too short'))),
 * )
 * const result = await enrich.run(urls, { store })
 * ```
 */
export function pipeline<A, B>(name: PipelineName, a: Stage<A, B>): Pipeline<A, B>
export function pipeline<A, B, C>(name: PipelineName, a: Stage<A, B>, b: Stage<NoInfer<B>, C>): Pipeline<A, C>
export function pipeline<A, B, C, D>(
  name: PipelineName,
  a: Stage<A, B>,
  b: Stage<NoInfer<B>, C>,
  c: Stage<NoInfer<C>, D>,
): Pipeline<A, D>
export function pipeline<A, B, C, D, E>(
  name: PipelineName,
  a: Stage<A, B>,
  b: Stage<NoInfer<B>, C>,
  c: Stage<NoInfer<C>, D>,
  d: Stage<NoInfer<D>, E>,
): Pipeline<A, E>
export function pipeline<A, B, C, D, E, F>(
  name: PipelineName,
  a: Stage<A, B>,
  b: Stage<NoInfer<B>, C>,
  c: Stage<NoInfer<C>, D>,
  d: Stage<NoInfer<D>, E>,
  e: Stage<NoInfer<E>, F>,
): Pipeline<A, F>
export function pipeline<A, B, C, D, E, F, G>(
  name: PipelineName,
  a: Stage<A, B>,
  b: Stage<NoInfer<B>, C>,
  c: Stage<NoInfer<C>, D>,
  d: Stage<NoInfer<D>, E>,
  e: Stage<NoInfer<E>, F>,
  f: Stage<NoInfer<F>, G>,
): Pipeline<A, G>
export function pipeline<A, B, C, D, E, F, G, H>(
  name: PipelineName,
  a: Stage<A, B>,
  b: Stage<NoInfer<B>, C>,
  c: Stage<NoInfer<C>, D>,
  d: Stage<NoInfer<D>, E>,
  e: Stage<NoInfer<E>, F>,
  f: Stage<NoInfer<F>, G>,
  g: Stage<NoInfer<G>, H>,
): Pipeline<A, H>
export function pipeline<A, B, C, D, E, F, G, H, I>(
  name: PipelineName,
  a: Stage<A, B>,
  b: Stage<NoInfer<B>, C>,
  c: Stage<NoInfer<C>, D>,
  d: Stage<NoInfer<D>, E>,
  e: Stage<NoInfer<E>, F>,
  f: Stage<NoInfer<F>, G>,
  g: Stage<NoInfer<G>, H>,
  h: Stage<NoInfer<H>, I>,
): Pipeline<A, I>
export function pipeline(name: PipelineName, ...stages: StageCode[]): Pipeline<unknown, unknown> {
  return new Pipeline(name, stages)
}

function checkName(name: string): void {
  if (!/^[\w.-]{1,90}$/.test(name)) {
    throw new OptionError('name', `A pipeline is named with letters, digits and _.- (at most 90), got '${name}'.`)
  }
}

function checkStages(pipeline: string, stages: readonly StageCode[]): void {
  if (stages.length === 0) throw new OptionError('stages', `The pipeline '${pipeline}' has no stages.`)
  const names = stages.map(({ name }) => name)
  const twice = names.find((name, index) => names.indexOf(name) !== index)
  if (twice !== undefined) throw new OptionError('stages', `Two stages of '${pipeline}' are named '${twice}'.`)
}

function versionOf(stages: readonly StageCode[]): string {
  const code = stages.map(({ name, text }) => `${name}\n${text}`).join('\n\n')
  return createHash('sha256').update(code).digest('hex').slice(0, 8)
}
