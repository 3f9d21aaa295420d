import type { CollectionOptions, DocumentRecord, SweeperSettings } from '../document/index.js'
import { type Env, readNumber } from './env.js'
import type { Preset } from './preset.js'

/** Archives that are parsed, chunked, embedded and summarised by services with a failed queue each. */
export const documents = {
  name: 'documents',
  routes: {
    'archive.ingestion.failed': 'archive.ingested',
    'parsing.failed': 'archive.ingested',
    'orchestration.failed': 'archive.ingested',
    'chunking.failed': 'json.parsed',
    'embedding.generation.failed': 'chunks.prepared',
    'summarization.failed': 'summarization.requested',
    'report.delivery.failed': 'summary.complete',
  },
  sweeper: sweeperSettings,
  documentMetricNames: {
    requeued: 'retry_job_documents_requeued_total',
    skipped: 'retry_job_documents_skipped_backoff_total',
    exhausted: 'retry_job_documents_max_retries_exceeded_total',
    runs: 'retry_job_runs_total',
    errors: 'retry_job_errors_total',
    stuck: 'retry_job_stuck_documents',
    failed: 'retry_job_failed_documents',
    duration: 'retry_job_duration_seconds',
  },
} as const satisfies Preset

const archiveOf = ({ data }: DocumentRecord) => data.archive_id ?? null

const COLLECTIONS: readonly (CollectionOptions & { readonly attempts: number })[] = [
  {
    name: 'archives',
    attempts: 3,
    fields: { id: 'archive_id' },
    event: {
      type: 'archive.ingested',
      name: 'ArchiveIngested',
      data: ({ id, data }) => ({
        archive_id: id,
        file_path: data.file_path ?? null,
        source: data.source ?? null,
        message_count: data.message_count ?? 0,
      }),
    },
  },
  {
    name: 'messages',
    attempts: 3,
    event: {
      type: 'json.parsed',
      name: 'JSONParsed',
      data: document => ({ archive_id: archiveOf(document), parsed_message_ids: [document.id], message_count: 1 }),
    },
  },
  {
    name: 'chunks',
    attempts: 5,
    event: {
      type: 'chunks.prepared',
      name: 'ChunksPrepared',
      data: document => ({ archive_id: archiveOf(document), chunk_ids: [document.id] }),
    },
  },
  {
    name: 'threads',
    attempts: 5,
    fields: { id: 'thread_id' },
    event: {
      type: 'summarization.requested',
      name: 'SummarizationRequested',
      data: document => ({ thread_id: document.id, archive_id: archiveOf(document) }),
    },
  },
]

/**
 * Four collections, swept every 15 minutes, changed by `RETRY_JOB_INTERVAL_SECONDS`, `RETRY_JOB_BASE_DELAY_SECONDS`,
 * `RETRY_JOB_MAX_DELAY_SECONDS`, `RETRY_JOB_STUCK_THRESHOLD_HOURS` and `RETRY_JOB_MAX_ATTEMPTS_<COLLECTION>`.
 */
function sweeperSettings(env: Env): SweeperSettings {
  const seconds = (name: string, min = 0) => readNumber(env, [name], { min, unitMs: 1000 })
  return {
    interval: seconds('RETRY_JOB_INTERVAL_SECONDS', 0.001) ?? 900_000,
    stuckAfter: readNumber(env, ['RETRY_JOB_STUCK_THRESHOLD_HOURS'], { min: 0, unitMs: 3_600_000 }) ?? 86_400_000,
    policy: {
      backoff: {
        base: seconds('RETRY_JOB_BASE_DELAY_SECONDS') ?? 300_000,
        max: seconds('RETRY_JOB_MAX_DELAY_SECONDS') ?? 3_600_000,
      },
    },
    collections: COLLECTIONS.map(({ attempts: usual, ...collection }) => {
      const variable = `RETRY_JOB_MAX_ATTEMPTS_${collection.name.toUpperCase()}`
      const attempts = readNumber(env, [variable], { min: 1, isWhole: true }) ?? usual
      // As in the source system, many stuck documents are reported, and all of them are sent.
      return { ...collection, policy: { attempts }, blastRadius: { isWarning: true } }
    }),
  }
}
