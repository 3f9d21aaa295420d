import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import ts from 'typescript'
import { describe, expect, it } from 'vitest'
import { ROOT, readJson, subpaths } from './subpaths.js'

/**
 * Every name that users can import, types included. A new one is a promise: add it here when it is meant to be public.
 * Whatever a function returns needs a name, or users could not return it from functions of theirs. The options of one
 * function need none: the tag `@inline` spells them out where the API reference describes the function.
 */
const EXPORTS: Readonly<Record<string, string>> = {
  redrive: `
    Attempt AttemptRecord BreakerOpenError BreakerState Bulkhead BulkheadFullError CircuitBreaker Classifier Clock
    FinalError HttpError OptionError Policy PolicyError PolicyInput RateLimitedError RedriveError RetryBudget
    RetryExhaustedError RetryManager RetryOptions RetryableError Sink TimeoutError UnwantedResultError Verdict Work
    WorkEvent bulkhead circuitBreaker policies policy retry retryBudget retryFetch retrying until`,
  'redrive/policy': `
    Backoff Circumstances Classifier Decision Duration Explanation FinalError GiveUpReason History Jitter
    MissingPackageError OptionError Policy PolicyError PolicyInput RateLimitedError RedriveError RetryableError
    TimeoutError Verdict advance begin canonicalJson classify decide decideLoss explain extendPolicy formatDuration
    hashJson identityRandom parseDuration policies policy`,
  'redrive/telemetry': `
    AuditRecord GaveUp Logger MemoryAudit NdjsonAudit RetryPatterns Sink Work WorkEvent auditRecord describeFailure
    errorType failureText fanOut logTo memoryAudit ndjsonAudit on redact redactContext retryPatterns sinkFailures
    withoutSecrets`,
  'redrive/idempotency': `
    IdempotencyClaim IdempotencyClaimRequest IdempotencyGuard IdempotencyInProgressError IdempotencyKeyError
    IdempotencyLeaseLostError IdempotencyMismatchError IdempotencyParamsError IdempotencyResultUnavailableError
    IdempotencyStore MemoryIdempotencyStore idempotencyKey`,
  'redrive/presets': `
    Preset presetNamed presets`,
  'redrive/task': `
    BatchEnd BatchEndedError BatchItem BatchItems Codec CodecError DeadLetter Death DeclaredTask DrainResult
    EnqueueOptions EnqueuedBatch JointContext JointDefinition JointHandler Later LeaseLostError Outage PayloadError ResultError Skip StandardSchema
    StepContext StepError StepFailedError Task TaskBatch TaskCancelledError TaskContext TaskDefinition TaskHandler
    TaskKindError TaskNotFoundError TaskNotSucceededError TaskOptions TaskQueue Worker WorkerOptions
    WorkerStoppedError compressed declareTask defineTask encrypted later skip storeAudit`,
  'redrive/schedule': `
    ChangeDay Schedule ScheduleOptions ScheduleSpec ScheduledTask nextSlots proveSchedule schedule`,
  'redrive/pipeline': `
    BatchContext BatchHandler BatchResultError FailureBudgetExceededError Pipeline ResumableSource RunBusyError RunEnd
    RunEndedError RunExistsError RunHandle RunInterruptedError RunNotCompletedError RunNotFoundError RunOptions
    RunRecord RunResult RunStatus Snapshot Source SourceChangedError SourceItem SourceItemError Stage StageContext
    StageCostError StageGoneError StageHandler StageValueError batch jsonl pipeline stage successRate`,
  'redrive/store': `
    BudgetRecord By Enqueued GroupRecord Lane LaneLimits LaneRecord LaneSelection LedgerRow MemoryStore Move
    MoveDifferenceError MoveRefusedError NewTask OnceResultError Page PageRequest Retention StaleFenceError Store
    StoreBusyError StoreClosedError StoreDamagedError StoreForbiddenError StoreForeignError StoreFullError
    StoreNewerError StoreNotReadyError StoreReadOnlyError StoreRefusedError StoreReplacedError StoreRolledBackError
    StoreUnavailableError TaskFilter TaskRecord TaskStatus moveStore planMove`,
  'redrive/sqlite': `
    SqliteOptions SqliteStore openSqlite`,
  'redrive/postgres': `
    PostgresOptions PostgresStore PostgresTransaction SqlClient openPostgres`,
  'redrive/event': `
    ConsumeOptions DeadLetterEntry DeadLetterError DocumentNotFoundError EventConsumer EventContext
    EventExhaustedError EventHandler Outbox Relay consume eventKey handleEvent waitForVersion`,
  'redrive/bus': `
    Bus BusClosedError BusForbiddenError BusUnavailableError Consumer Delivery DeliveryHandler DeliveryOptions
    FailedMessage Finding FoundQueue MemoryBus Message MessageTooLargeError NewMessage NoQueueError
    PublishRefusedError PublishUnconfirmedError QueueStatus TlsOptions Topology TopologyError failedQueueOf
    isFailedQueue textOf`,
  'redrive/rabbitmq': `
    RabbitmqBus RabbitmqOptions openRabbitmq`,
  'redrive/nats': `
    NatsBus NatsIdempotencyStore NatsOptions openNats openNatsIdempotencyStore`,
  'redrive/document': `
    Beginning Change Collection CollectionOptions Cut DocumentBusyError DocumentEvent DocumentRecord DocumentService
    DocumentSource DocumentWalkOptions NewValues NoCollectionError NoDocumentError NoFieldError OnRefused Selection
    Shape Survey SweepReport Sweeper SweeperOptions SweeperSettings documentService expect openMongodbSource
    openPostgresSource openSqliteSource sweeper`,
  'redrive/operate': `
    ArrangedTasks BackfillPlan Backfilled BatchExplanation BatchNotFoundError BatchView BudgetView Cancelled CostTotalView
    DeletedTasks DeletionSelection DiscardPlan Discarded EndedTasks Examination FailedQueue FailedQueues GroupExplanation GroupNotFoundError GroupView
    LaneView LedgerRowView LetterSelection MessageView NoFailedQueueError NoRouteError OperationInterruptedError
    OperationNotFoundError OperationPlan OperationRecord Pruned Purged QueueBusyError RedrivePlan Redriven Refusal
    RegroupPreview ReprocessPlan Reprocessed RequeuePlan Requeued ResultFileError ResultLog RunReport RunView
    ScheduleNotFoundError SchedulePlan ScheduleView SeenGroups SlotView StoreFigures TaskCountView TaskExplanation
    TaskView Verification Why WorkerView YieldReport backfillSchedule cancelTasks closeBatch completeTasks costTotals countTasks
    deleteTasks discardDeadLetters eventIn examineBus explainGroup explainTask exportFailedQueue failTasks failedQueues findBatch
    findFailedQueue findSchedule followAudit groupFailedQueue groupFailures ledgerRowView listBatchTasks listBatches
    listBudgets listGroups listLanes listSchedules listTasks listWorkers messageView openResultLog operationOutcome
    pauseSchedule planBackfill planDiscard planOperation planRedrive planReprocess planRequeue planSchedule
    previewRules prioritizeTasks promoteTasks pruneStore purgeFailedQueue redriveDeadLetters redriveWhenFixed
    removeSchedule reportRun reportYields reprocess requeueFailedQueue rescheduleTasks resumeSchedule runOperation
    runSchedule runView setRates setSchedule startBackfill startOperation startRequeue storeFigures taskView undoOperation
    untilEmpty verify walkFailedQueue walkTasks why writeResults`,
  'redrive/notify': `
    Notification Notifier NotifyOptions Target notify slack webhook`,
  'redrive/config': `
    RedriveConfig`,
  'redrive/otel': `
    spanEvents traceWork`,
  'redrive/metrics': `
    MetricsRegistry MetricsServer PushGateway documentMetrics eventMetrics metricsHandler pushGateway serveMetrics
    storeMetrics workMetrics`,
  'redrive/testing': `
    BusUnderTest ConformanceCase FakeClock IdempotencyStoreUnderTest NewDocument SourceUnderTest busConformance
    fakeClock idempotencyStoreConformance sourceConformance`,
}

interface Export {
  readonly name: string
  /** The file that it is exported from. */
  readonly file: string
}

/** The exports of an index file, which does nothing but export names of other files. */
function exportsOf(index: string): Export[] {
  const { statements } = ts.createSourceFile(index, readFileSync(join(ROOT, index), 'utf8'), ts.ScriptTarget.Latest)
  return statements.flatMap(statement => {
    const { exportClause, moduleSpecifier } = ts.isExportDeclaration(statement) ? statement : {}
    if (!exportClause || !ts.isNamedExports(exportClause) || !moduleSpecifier || !ts.isStringLiteral(moduleSpecifier)) {
      throw new Error(`${index} must export names of other files, and hold nothing else.`)
    }
    const file = join(dirname(index), moduleSpecifier.text).replace(/\.js$/, '.ts')
    return exportClause.elements.map(({ name }) => ({ name: name.text, file }))
  })
}

/** Follows an export through index files to the file that declares it. */
function homeOf({ name, file }: Export): string {
  if (!/\/(index|internal)\.ts$/.test(file)) return file
  const next = exportsOf(file).find(entry => entry.name === name)
  return next === undefined ? file : homeOf(next)
}

describe('the imports of the package', () => {
  it('are the same in package.json and in tsconfig.json', () => {
    const { paths } = readJson('tsconfig.json').compilerOptions
    const sources = Object.entries(subpaths()).map(([name, source]) => [name, [`./${source}`]])
    expect(paths).toEqual(Object.fromEntries(sources))
  })

  it('have their declarations beside their code', () => {
    for (const target of Object.values(readJson('package.json').exports)) {
      if (typeof target === 'string') continue
      const { types, default: code } = target as { types: string; default: string }
      expect(types.replace(/\.d\.ts$/, '.js')).toBe(code)
    }
  })

  it('are those listed here', () => {
    expect(Object.keys(subpaths())).toEqual(Object.keys(EXPORTS))
  })

  it.each(Object.entries(subpaths()))('%s exports the names listed here, and no others', (name, source) => {
    const names = exportsOf(source).map(entry => entry.name)
    expect(names.sort()).toEqual(EXPORTS[name]?.trim().split(/\s+/))
  })

  it('hide nothing by a tag: what users should not see is in internal.ts', () => {
    const sources = readdirSync(join(ROOT, 'src'), { recursive: true, encoding: 'utf8' }).filter(
      file => file.endsWith('.ts') && readFileSync(join(ROOT, 'src', file), 'utf8').includes('@internal'),
    )
    expect(sources).toEqual([])
  })

  it('give one name to one thing', () => {
    const homes = new Map<string, Set<string>>()
    for (const entry of Object.values(subpaths()).flatMap(exportsOf)) {
      homes.set(entry.name, (homes.get(entry.name) ?? new Set()).add(homeOf(entry)))
    }
    expect([...homes].filter(([, files]) => files.size > 1)).toEqual([])
  })
})
