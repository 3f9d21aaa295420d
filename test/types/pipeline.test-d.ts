import { batch, type Pipeline, pipeline, stage } from 'redrive/pipeline'
import { skip } from 'redrive/task'
import { describe, expectTypeOf, it } from 'vitest'

describe('the types of a pipeline', () => {
  it('flow from stage to stage, from the input of the first', () => {
    const enrich = pipeline(
      { name: 'enrich', version: '1.4.0' },
      stage('fetch', async (url: string, { signal }) => ({ url, isAborted: signal.aborted, length: url.length })),
      stage('filter', page => (page.length > 3 ? page : skip('too short')), {
        cost: page => ({ tokens: page.length }),
      }),
      batch('embed', async pages => pages.map(page => (page.isAborted ? new Error('aborted') : [page.length])), {
        size: 100,
      }),
      stage('sum', vector => vector.reduce((sum, part) => sum + part, 0)),
    )
    expectTypeOf(enrich).toEqualTypeOf<Pipeline<string, number>>()
  })

  it('refuse a stage that does not take what the one before returns', () => {
    pipeline(
      'broken',
      stage('length', (text: string) => text.length),
      // @ts-expect-error: it takes a text, and gets a number.
      stage('shout', (text: string) => text.toUpperCase()),
    )
  })

  it('refuse a stage that takes what JSON has changed on the way', () => {
    pipeline(
      'dates',
      stage('parse', (text: string) => ({ on: new Date(text) })),
      // @ts-expect-error: it gets the date as text.
      stage('year', (due: { readonly on: Date }) => due.on.getFullYear()),
    )
    pipeline(
      'dates',
      batch('parse', (texts: readonly string[]) => texts.map(text => new Date(text)), { size: 10 }),
      // @ts-expect-error: it gets the date as text.
      stage('year', on => on.getFullYear()),
    )
  })

  it('are checked in a list of stages, each of which declares its input', () => {
    const measure = (url: string) => ({ length: url.length })
    const half = async ({ length }: { readonly length: number }) => length / 2
    const shout = (text: string) => text.toUpperCase()
    const lengths = pipeline('lengths', [stage('measure', measure), stage('half', half)])
    expectTypeOf(lengths).toEqualTypeOf<Pipeline<string, number>>()
    // @ts-expect-error: `shout` takes a text, and gets an object.
    pipeline('lengths', [stage('measure', measure), stage('shout', shout)])
  })
})
