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
} as const satisfies Preset
