import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, it } from 'vitest'
import { storeModelTest } from '../../../test/conformance/model-test.js'
import { storeConformance } from '../../../test/conformance/store-conformance.js'
import { fakeClock, idempotencyStoreConformance } from '../../testing/index.js'
import { openSqlite } from './internal.js'

async function open() {
  const folder = mkdtempSync(join(tmpdir(), 'redrive-'))
  const path = join(folder, 'redrive.db')
  const clock = fakeClock()
  const advance = (ms: number) => clock.advance(ms)
  const store = await openSqlite(path, { clock })
  let latest = store
  const reopen = async () => {
    const gone = latest
    latest = await openSqlite(path, { clock })
    await gone.close()
    return latest
  }
  const close = async () => rmSync(folder, { recursive: true })
  return { store, advance, reopen, close }
}

describe('the SQLite store keeps the contract', () => {
  for (const { name, run } of storeConformance(open)) it(name, run)
})

describe('its idempotency keys keep theirs', () => {
  for (const { name, run } of idempotencyStoreConformance(async () => {
    const { store, advance, close } = await open()
    const closeAll = async () => {
      await store.close()
      await close()
    }
    return { store: store.idempotency, pass: advance, close: closeAll }
  }))
    it(name, run)
})

const seed = Number(process.env.REDRIVE_TEST_SEED ?? Date.now() % 1_000_000)

it(`the SQLite store does what its model does (seed ${seed})`, { timeout: 120_000 }, () =>
  storeModelTest(open, { seed, runs: 100, withinMs: 100_000 }),
)
