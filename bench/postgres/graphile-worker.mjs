// As its page on performance says: a local queue, completions and failures in batches.
import { Logger, makeWorkerUtils, run } from 'graphile-worker'

const logger = new Logger(() => () => {})

export async function open(url) {
  const utils = await makeWorkerUtils({ connectionString: url, logger })
  await utils.migrate()
  return { url, utils, close: () => utils.release() }
}

export async function enqueue({ utils }, count) {
  await utils.addJobs(Array.from({ length: count }, () => ({ identifier: 'work', payload: { n: 1 } })))
}

export async function enqueueOneByOne({ utils }, count) {
  for (let n = 0; n < count; n++) await utils.addJob('work', { n: 1 })
}

export async function drain({ url }, count) {
  let left = count
  let finish
  const drained = new Promise(resolve => {
    finish = resolve
  })
  const runner = await run({
    logger,
    noHandleSignals: true,
    taskList: {
      work: () => {
        if (--left === 0) finish()
      },
    },
    preset: {
      worker: {
        connectionString: url,
        concurrentJobs: 24,
        localQueue: { size: 1000 },
        completeJobBatchDelay: 0,
        failJobBatchDelay: 0,
      },
    },
  })
  await drained
  // It completes its pending jobs before it has stopped.
  await runner.stop()
}
