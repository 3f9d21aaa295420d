import Database from 'better-sqlite3'
import { better, defineQueue, defineWorker } from 'plainjob'

const quiet = { error() {}, warn() {}, info() {}, debug() {} }

export function open(path) {
  const db = new Database(path)
  const queue = defineQueue({ connection: better(db), logger: quiet })
  db.pragma('journal_mode = WAL')
  db.pragma('synchronous = FULL')
  return queue
}

export function enqueue(queue, count) {
  queue.addMany(
    'work',
    Array.from({ length: count }, () => ({ n: 1 })),
  )
}

export async function drain(queue, count) {
  let left = count
  let finish
  const drained = new Promise(resolve => {
    finish = resolve
  })
  const worker = defineWorker('work', async job => void JSON.parse(job.data), {
    queue,
    logger: quiet,
    onCompleted: () => {
      if (--left === 0) finish()
    },
  })
  void worker.start()
  await drained
  await worker.stop()
}
