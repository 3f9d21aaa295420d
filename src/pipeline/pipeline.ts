import { createHash } from 'node:crypto'
import { Engine, type KindOptions, toMs, type WorkKind } from '../engine/internal.js'
import { OptionError } from '../policy/index.js'
import { isObject } from '../policy/internal.js'
import { contractOf, type NewRun, RunNotFoundError, type RunRecord, type StoreContract } from '../store/internal.js'
import { checkMadeByStore } from '../task/internal.js'
import { queueClock } from '../time/index.js'
import { ActiveRun } from './active-run.js'
import { checkSource } from './open-source.js'
import type { RunHandle } from './run-handle.js'
import {
  checkResumeOptions,
  checkRunOptions,
  checkStageNames,
  type OnEnd,
  type ResumeOptions,
  type RunOptions,
  type WorkOptions,
} from './run-options.js'
import type { RunResult } from './run-result.js'
import { changedSettings, newSettings } from './run-settings.js'
import type { Source } from './source.js'
import { SourceReader } from './source-reader.js'
import type { Stage, StageCode } from './stage.js'
import { stageKind } from './stage-kind.js'
import { checkRunStages, warnOfStrayItems } from './stray-items.js'

/** The name of a pipeline, or its name with options. */
export type PipelineName = string | PipelineOptions

/** Options of `pipeline()`. @inline */
export interface PipelineOptions {
  /** Letters, digits and _.- (at most 90). Runs belong to it. */
  readonly name: string
  /** On record with every attempt. Default: a short hash of the names and the code of its stages. */
  readonly version?: string
}

/** Stages that items pass through, one after another. Made by `pipeline()`. */
export class Pipeline<In, Out> {
  /** The name of the pipeline, by which runs belong to it. */
  readonly name: string
  /** The version of its code: yours, or a hash of the stages. */
  readonly version: string
  /** Its stages, in their order. */
  readonly stages: readonly StageCode[]

  constructor(name: PipelineName, stages: readonly StageCode[]) {
    const options = typeof name === 'string' ? { name } : name
    if ('codec' in options) throw new OptionError('codec', NO_CODEC)
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

  /** Opens a run, and begins to read its source and to work on it. Resolves when the run is on record. */
  async start(source: Source<In>, options: RunOptions<In>): Promise<RunHandle<Out>> {
    checkSource(source)
    checkRunOptions(options)
    // In JavaScript, the options may be left out.
    const store = contractOf(options?.store)
    const stages = this.stages.map(stage => stage.name)
    checkStageNames(options, this.name, stages)
    const { id = newRunId(this.name), itemId } = options
    const engine = await this.#engine(store, options)
    try {
      const { name, version } = this
      const reader = { name: engine.name, leaseMs: leaseOf(options) }
      const hasOwnIds = itemId !== undefined
      const run = { id, pipeline: name, version, stages, reader, hasOwnIds, ...openingOf(options) }
      const opened = await store.runs.open({ ...run, settings: newSettings(options) })
      engine.runs.note(opened)
      return this.#work(opened, engine, store, { ...options, source }, false)
    } catch (failure) {
      await engine.stop()
      throw failure
    }
  }

  /**
   * Continues a run that was stopped, paused or interrupted, or whose process died, with the current code. With a
   * source, it continues reading where the run left off; while another process reads, it waits.
   */
  async resume(id: string, options: ResumeOptions<In>): Promise<RunHandle<Out>> {
    checkResumeOptions(options)
    const store = contractOf(options?.store)
    if (options.source !== undefined) checkSource(options.source)
    const { runs } = store
    const run = await runs.get(id)
    if (run === undefined) throw new RunNotFoundError(id)
    if (run.pipeline !== this.name)
      throw new OptionError('id', `The run '${id}' belongs to the pipeline '${run.pipeline}', not to '${this.name}'.`)
    const stages = this.stages.map(stage => stage.name)
    // Settings of stages that are gone may be passed on as they are.
    checkStageNames(options, this.name, stages, run.stages)
    const settings = changedSettings(options)
    const engine = await this.#engine(store, options, { ...run, settings: { ...run.settings, ...settings } })
    try {
      // On record even if the run is refused: its items can then be moved to a stage that only this code has.
      const known = await runs.change(id, { stages, version: this.version })
      // Now that the engine has started, items of workers that died wait again.
      checkRunStages(known, stages)
      const isHeld = run.status === 'stopped' || run.status === 'paused'
      const change = { settings, ...(isHeld && { isPaused: false }) }
      return this.#work(await runs.change(id, change), engine, store, options, true)
    } catch (failure) {
      await engine.stop()
      throw failure
    }
  }

  /** Its stages as a worker runs them: `new Worker(store, { pipelines: [enrich] })`. */
  kinds(store: StoreContract, options: KindOptions = {}): readonly WorkKind[] {
    const [first, ...others] = this.stages.map((_, index) => stageKind(this, index, store, options))
    if (first === undefined) return []
    const prepare = async () => {
      await first.prepare?.()
      await warnOfStrayItems(this, store)
    }
    return [{ ...first, prepare }, ...others]
  }

  /** Starts an engine. A run that has items already is noted first, since they are claimed at once. */
  async #engine(store: StoreContract, options: WorkOptions, run?: RunRecord): Promise<Engine> {
    const { name, release, lease, grace, classify, sink, onOutage, clock } = options
    const engine = new Engine(store, this.kinds(store, options), {
      name,
      release,
      lease,
      grace,
      classify,
      sink,
      onOutage,
      clock,
    })
    if (run !== undefined) engine.runs.note(run)
    await engine.start()
    return engine
  }

  #work(
    run: RunRecord,
    engine: Engine,
    store: StoreContract,
    options: ResumeOptions<In>,
    isResumed: boolean,
  ): RunHandle<Out> {
    const { source, itemId, sink, clock = queueClock } = options
    const [firstStage] = this.stages
    const reading = { name: engine.name, leaseMs: leaseOf(options), clock, firstStage, itemId }
    const reader = source === undefined || run.isRead ? undefined : new SourceReader(store.runs, run, source, reading)
    return new ActiveRun<Out>(run, { store, clock, engine, sink, isResumed, reader })
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
/** Stages as a list, each of which declares its input. A stage that does not fit the one before it does not compile. */
export function pipeline<const Stages extends readonly [StageCode, ...StageCode[]]>(
  name: PipelineName,
  stages: Stages & Chain<Stages, InputOf<Stages[0]>>,
): Pipeline<InputOf<Stages[0]>, OutputOf<Stages>>
export function pipeline(
  name: PipelineName,
  ...stages: (StageCode | readonly StageCode[])[]
): Pipeline<unknown, unknown> {
  return new Pipeline(name, stages.flat())
}

type InputOf<First> = First extends Stage<infer In, unknown> ? In : never

type OutputOf<Stages> = Stages extends readonly [...unknown[], Stage<never, infer Out>] ? Out : never

/** The stages, where each that does not take what it would get is replaced by one that does. */
type Chain<Stages, In> = Stages extends readonly [infer First, ...infer Rest]
  ? First extends Stage<infer From, infer To>
    ? readonly [[In] extends [From] ? First : Stage<In, To>, ...Chain<Rest, To>]
    : never
  : readonly []

/** Sorts by time, and tells apart runs that begin together. */
function newRunId(pipeline: string): string {
  const time = new Date()
    .toISOString()
    .replace(/\.\d+Z$/, '')
    .replaceAll(/[-:]/g, '')
  return `${pipeline.slice(0, 70)}-${time}-${crypto.randomUUID().slice(0, 4)}`
}

function leaseOf({ lease = '30s' }: WorkOptions): number {
  return toMs('lease', lease, 1)
}

/** The values of items pass through reports, batches and sources, all of which read them. */
const NO_CODEC =
  'Pipelines have no codec: their values are stored as plain text. Pass references to what is secret, or a task with a codec.'

/** The options that are kept with a run. */
function openingOf({ hasOutput, onEnd, about }: RunOptions<never>): Partial<NewRun> {
  return {
    ...(hasOutput !== undefined && { hasOutput }),
    ...(about !== undefined && { about: JSON.stringify(about) }),
    ...(onEnd !== undefined && { onEnd: endTask(onEnd) }),
  }
}

function endTask({ task, category, key, payload = null }: OnEnd): NonNullable<NewRun['onEnd']> {
  checkMadeByStore('onEnd', task)
  return {
    kind: task.kind,
    ...(category !== undefined && { category }),
    ...(key !== undefined && { key }),
    payload: JSON.stringify(payload),
  }
}

function checkName(name: string): void {
  if (!/^[\w.-]{1,90}$/.test(name)) {
    throw new OptionError('name', `A pipeline is named with letters, digits and _.- (at most 90), got '${name}'.`)
  }
}

function checkStages(pipeline: string, stages: readonly StageCode[]): void {
  if (stages.length === 0) throw new OptionError('stages', `The pipeline '${pipeline}' has no stages.`)
  const stranger = stages.findIndex(stage => !isStage(stage))
  if (stranger >= 0) {
    const problem = `Stage ${stranger + 1} of '${pipeline}' is not a stage. Make it with stage() or batch().`
    throw new OptionError('stages', problem)
  }
  const names = stages.map(({ name }) => name)
  const twice = names.find((name, index) => names.indexOf(name) !== index)
  if (twice !== undefined) throw new OptionError('stages', `Two stages of '${pipeline}' are named '${twice}'.`)
}

function isStage(stage: unknown): boolean {
  return isObject(stage) && typeof stage.name === 'string' && isObject(stage.work)
}

function versionOf(stages: readonly StageCode[]): string {
  const code = stages.map(({ name, text }) => `${name}\n${text}`).join('\n\n')
  return createHash('sha256').update(code).digest('hex').slice(0, 8)
}
