// Fetched and completed in batches; while they are full, the next is fetched at once.
import { PgBoss } from 'pg-boss'

export async function open(url) {
  const boss = new PgBoss({ connectionString: url, supervise: false, schedule: false })
  await boss.start()
  await boss.createQueue('work', { retryLimit: 3, retryDelay: 0 })
  return { boss, close: () => boss.stop({ graceful: false }) }
}

export async function enqueue({ boss }, count) {
  await boss.insert(
    'work',
    Array.from({ length: count }, () => ({ data: { n: 1 } })),
  )
}

/** Drains `count` tasks; every `failing`th fails once, and is retried without a delay. */
export async function drain({ boss }, count, failing = 0) {
  const failed = new Set()
  let left = count
  let seen = 0
  let finish
  const drained = new Promise(resolve => {
    finish = resolve
  })
  const isFailure = id => {
    if (failing === 0 || failed.has(id) || ++seen % failing !== 0) return false
    failed.add(id)
    return true
  }
  const options = {
    localConcurrency: 2,
    batchSize: 1000,
    burstWhenBatchFull: true,
    pollingIntervalSeconds: 0.5,
    perJobResults: failing > 0,
  }
  await boss.work('work', options, async jobs => {
    const results = jobs.map(({ id }) => ({ id, status: isFailure(id) ? 'failed' : 'completed' }))
    left -= results.filter(({ status }) => status === 'completed').length
    if (left === 0) finish()
    return failing > 0 ? results : undefined
  })
  await drained
  // What is still to be completed is, before it has stopped.
  await boss.offWork('work', { wait: true })
}
