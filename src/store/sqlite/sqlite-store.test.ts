import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, it } from 'vitest'
import { fakeClock, idempotencyStoreConformance } from '../../testing/index.js'
import { storeConformance, storeModelTest } from '../../testing/store-conformance/index.js'
import { openSqlite } from './index.js'

async function open() {
  const folder = mkdtempSync(join(tmpdir(), 'redrive-'))
  const clock = fakeClock()
  const store = await openSqlite(join(folder, 'redrive.db'), { clock })
  const close = async () => rmSync(folder, { recursive: true })
  return { store, clock, close }
}

describe('the SQLite store keeps the contract', () => {
  for (const { name, run } of storeConformance(async () => {
    const { store, clock, close } = await open()
    return { store, advance: (ms: number) => clock.advance(ms), close }
  }))
    it(name, run)
})

describe('its idempotency keys keep theirs', () => {
  for (const { name, run } of idempotencyStoreConformance(async () => {
    const { store, clock, close } = await open()
    const closeAll = async () => {
      await store.close()
      await close()
    }
    return { store: store.idempotency, pass: (ms: number) => clock.advance(ms), close: closeAll }
  }))
    it(name, run)
})

const seed = Number(process.env.REDRIVE_TEST_SEED ?? Date.now() % 1_000_000)

it(`the SQLite store does what its model does (seed ${seed})`, { timeout: 120_000 }, () =>
  storeModelTest(
    async () => {
      const { store, clock, close } = await open()
      return { store, advance: (ms: number) => clock.advance(ms), close }
    },
    { seed, runs: 100 },
  ),
)
