import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { type StoreFolder, storeFolder } from '../../../../test/store-folder.js'
import type { Cost, StoreContract } from '../../../store/internal.js'

const HOUR_MS = 3_600_000

let folder: StoreFolder
beforeEach(() => {
  folder = storeFolder()
})
afterEach(() => folder.remove())

describe('cost', () => {
  it('adds up what attempts have spent, by kind or as asked', async () => {
    await folder.inStore(async store => {
      await spend(store, { kind: 'summarize', key: 'acme' }, { tokens: 1200, dollars: 0.1 })
      await spend(store, { kind: 'summarize', key: 'initech' }, { tokens: 34, dollars: 0.2 })
      await spend(store, { kind: 'embed' }, { tokens: 5 })
    })
    expect((await folder.redrive(['cost'])).lines()).toEqual([
      'KIND       USED',
      'embed      tokens 5',
      'summarize  dollars 0.3, tokens 1 234',
    ])
    expect((await folder.redrive(['cost', '--kind', 'summarize', '--by', 'key'])).lines()).toEqual([
      'KEY      USED',
      'acme     dollars 0.1, tokens 1 200',
      'initech  dollars 0.2, tokens 34',
    ])
    expect((await folder.redrive(['cost', '--key', 'acme', '--by', 'kind,key', '--output', 'json'])).json()).toEqual([
      { kind: 'summarize', key: 'acme', used: { tokens: 1200, dollars: 0.1 } },
    ])
    expect((await folder.redrive(['cost', '--by', 'kind,key'])).lines()[1]).toBe('embed      -        tokens 5')
  })

  it('takes the costs of a time', async () => {
    await folder.inStore(store => spend(store, { kind: 'embed' }, { tokens: 5 }))
    expect((await folder.redrive(['cost', '--since', '1h'])).lines()[1]).toBe('embed  tokens 5')
    await folder.inStore(store => store.prune({ auditMs: 48 * HOUR_MS }, 100))
    expect((await folder.redrive(['cost', '--since', '1d'])).lines()[1]).toBe('embed  tokens 5')
  })

  it('says that there are none', async () => {
    await folder.inStore(store => store.enqueue([{ kind: 'embed', payload: '{}' }]))
    expect(await folder.redrive(['cost'])).toMatchObject({
      code: 0,
      err: 'No attempt has told what it has spent: see used() of tasks.\n',
    })
    expect(await folder.redrive(['cost', '--kind', 'x'])).toMatchObject({ code: 0, err: 'No costs match.\n' })
    expect(await folder.redrive(['cost', '--output', 'json'])).toMatchObject({ out: '[]\n' })
  })

  it('refuses a field that there is not', async () => {
    const { code, err } = await folder.redrive(['cost', '--by', 'stage'])
    expect(code).toBe(2)
    expect(err).toContain('It must be one or several of kind, category, key, with commas.')
  })
})

async function spend(
  store: StoreContract,
  task: { readonly kind: string; readonly key?: string },
  used: Cost,
): Promise<void> {
  await store.enqueue([{ ...task, payload: '{}' }])
  const rooms = [{ kinds: [task.kind] }]
  const { tasks } = await store.claim({ worker: 'w', leaseMs: 60_000, rooms, limit: 1, isIdle: true })
  for (const { id, token } of tasks) {
    const attempt = { attempt: 1, startedAt: 0, endedAt: 0, worker: 'w' }
    await store.settle([{ id, token, outcome: { type: 'succeeded' }, attempt, used }])
  }
}
