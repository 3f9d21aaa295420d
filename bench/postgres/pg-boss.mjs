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

export async function enqueueOneByOne({ boss }, count) {
  for (let n = 0; n < count; n++) await boss.send('work', { n: 1 })
}

const polling = { burstWhenBatchFull: true, pollingIntervalSeconds: 0.5 }

/**
 * Drains `count` tasks; every `failing`th fails once, and is retried without a delay: its handler says so of each job.
 */
export async function drain({ boss }, count, failing = 0) {
  const { isFailure, done, drained } = course(count, failing)
  const options = { ...polling, localConcurrency: 2, batchSize: 1000, perJobResults: failing > 0 }
  await boss.work('work', options, async jobs => {
    const results = jobs.map(({ id }) => ({ id, status: isFailure(id) ? 'failed' : 'completed' }))
    done(results.filter(({ status }) => status === 'completed').length)
    return failing > 0 ? results : undefined
  })
  await drained
  // It completes its pending jobs before it has stopped.
  await boss.offWork('work', { wait: true })
}

/** The same with a handler that throws: then a job that is to fail alone must come alone. */
export async function drainThrowing({ boss }, count, failing) {
  const { isFailure, done, drained } = course(count, failing)
  await boss.work('work', { ...polling, localConcurrency: 100, batchSize: 1 }, async ([{ id }]) => {
    if (isFailure(id)) throw new Error('down')
    done(1)
  })
  await drained
  await boss.offWork('work', { wait: true })
}

/** Decides which jobs fail, and resolves `drained` once all are done. */
function course(count, failing) {
  const failed = new Set()
  let left = count
  let seen = 0
  let finish
  const drained = new Promise(resolve => {
    finish = resolve
  })
  return {
    drained,
    isFailure(id) {
      if (failing === 0 || failed.has(id) || ++seen % failing !== 0) return false
      failed.add(id)
      return true
    },
    done(more) {
      left -= more
      if (left === 0) finish()
    },
  }
}
