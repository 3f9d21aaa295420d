import { describe, expect, it } from 'vitest'
import type { DocumentRecord } from '../document/index.js'
import { presets } from './index.js'

const settings = presets.documents.sweeper

function documentWith(id: string, data: Record<string, unknown>): DocumentRecord {
  return { id, data } as unknown as DocumentRecord
}

describe('the preset for documents', () => {
  it('has four collections, each with its attempts and its event', () => {
    const { collections, interval, stuckAfter, policy } = settings({})
    expect({ interval, stuckAfter, policy }).toEqual({
      interval: 900_000,
      stuckAfter: 86_400_000,
      policy: { backoff: { base: 300_000, max: 3_600_000 } },
    })
    expect(collections.map(({ name, policy, event }) => [name, policy?.attempts, event.name, event.type])).toEqual([
      ['archives', 3, 'ArchiveIngested', 'archive.ingested'],
      ['messages', 3, 'JSONParsed', 'json.parsed'],
      ['chunks', 5, 'ChunksPrepared', 'chunks.prepared'],
      ['threads', 5, 'SummarizationRequested', 'summarization.requested'],
    ])
    expect(collections.every(({ blastRadius }) => blastRadius?.isWarning)).toBe(true)
  })

  it('sends the data that the services expect', () => {
    const data = { archive_id: 'a1', file_path: '/a.mbox', source: 'ietf' }
    const sent = settings({}).collections.map(({ event }) => event.data(documentWith('d1', data)))
    expect(sent).toEqual([
      { archive_id: 'd1', file_path: '/a.mbox', source: 'ietf', message_count: 0 },
      { archive_id: 'a1', parsed_message_ids: ['d1'], message_count: 1 },
      { archive_id: 'a1', chunk_ids: ['d1'] },
      { thread_id: 'd1', archive_id: 'a1' },
    ])
  })

  it('reads every variable of the environment, a threshold of 0 and of half an hour included', () => {
    const env = {
      RETRY_JOB_INTERVAL_SECONDS: '60',
      RETRY_JOB_BASE_DELAY_SECONDS: '10',
      RETRY_JOB_MAX_DELAY_SECONDS: '20',
      RETRY_JOB_STUCK_THRESHOLD_HOURS: '0.5',
      RETRY_JOB_MAX_ATTEMPTS_ARCHIVES: '1',
      RETRY_JOB_MAX_ATTEMPTS_MESSAGES: '2',
      RETRY_JOB_MAX_ATTEMPTS_CHUNKS: '7',
      RETRY_JOB_MAX_ATTEMPTS_THREADS: '8',
    }
    const { collections, ...rest } = settings(env)
    expect(rest).toEqual({
      interval: 60_000,
      stuckAfter: 1_800_000,
      policy: { backoff: { base: 10_000, max: 20_000 } },
    })
    expect(collections.map(({ policy }) => policy?.attempts)).toEqual([1, 2, 7, 8])
    expect(settings({ RETRY_JOB_STUCK_THRESHOLD_HOURS: '0' }).stuckAfter).toBe(0)
    expect(() => settings({ RETRY_JOB_MAX_ATTEMPTS_CHUNKS: '0' })).toThrow(/RETRY_JOB_MAX_ATTEMPTS_CHUNKS/)
  })
})
