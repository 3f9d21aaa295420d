import { describe, expect, it } from 'vitest'
import { explain, OptionError } from '../policy/index.js'
import { presetNamed, presets } from './index.js'

describe('a preset', () => {
  it.each(Object.entries(presets))('is found by its name: %s', (name, preset) => {
    expect(preset.name).toBe(name)
    expect(presetNamed(name)).toBe(preset)
  })

  it.each(['call', '', 'Calls', 'constructor'])('is not found by the name %j, and the error lists the names', name => {
    expect(() => presetNamed(name)).toThrow(OptionError)
    expect(() => presetNamed(name)).toThrow(
      `There is no preset '${name}'. The presets are calls, documents, events, pipelines, tasks.`,
    )
  })
})

it('the preset for tasks waits 60 s, then twice as long each time, up to an hour', () => {
  const starts = explain(presets.tasks.policy()).attempts.map(({ earliestMs }) => earliestMs / 1000)
  expect(starts.slice(1).map((start, n) => start - (starts[n] ?? 0))).toEqual([60, 120, 240, 480, 960, 1920, 3600])
})

it('the preset for pipelines makes three attempts at all errors, from 1 s to 60 s apart, ±25 %', () => {
  expect(presets.pipelines.policy()).toMatchObject({
    attempts: 3,
    backoff: { kind: 'exponential', base: 1000, factor: 2, max: 60_000 },
    jitter: { kind: 'proportional', ratio: 0.25 },
    retryOn: 'all',
  })
})

it('the preset for documents knows where the messages of its failed queues go', () => {
  expect(presets.documents.routes).toEqual({
    'archive.ingestion.failed': 'archive.ingested',
    'parsing.failed': 'archive.ingested',
    'orchestration.failed': 'archive.ingested',
    'chunking.failed': 'json.parsed',
    'embedding.generation.failed': 'chunks.prepared',
    'summarization.failed': 'summarization.requested',
    'report.delivery.failed': 'summary.complete',
  })
})
