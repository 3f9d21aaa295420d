import { expect, it } from 'vitest'
import { pipeline, type RunEnd, stage } from '../pipeline/index.js'
import { schedule } from '../schedule/index.js'
import { MemoryStore } from '../store/internal.js'
import { type BatchEnd, type Death, declareTask, defineTask, TaskQueue } from './index.js'

const unique = { key: () => 'a', while: 'unfinished', conflict: 'keep' } as const

it('a kind with a unique key is refused where the store makes the task: nobody would make the key', async () => {
  const why = 'The store adds it without calling your code, which makes the unique key'
  const sync = declareTask<null>('sync', { unique })
  expect(() => schedule('nightly', { cron: '@daily', task: sync })).toThrow(`'task' cannot be the task 'sync'. ${why}`)
  const told = declareTask<Death>('told', { unique })
  expect(() => declareTask('work', { onDead: told })).toThrow(`'onDead' cannot be the task 'told'. ${why}`)
  const store = new MemoryStore()
  const line = pipeline(
    'line',
    stage('only', (n: number) => n),
  )
  const onEnd = { task: defineTask('report', { unique, handler: (_: RunEnd) => {} }) }
  await expect(line.run([1], { store, onEnd })).rejects.toThrow(`'onEnd' cannot be the task 'report'. ${why}`)
  const queue = new TaskQueue(store)
  const ended = { task: declareTask<BatchEnd>('ended', { unique }) }
  await expect(queue.enqueueBatch('b', declareTask<number>('work'), [], { onEnd: ended })).rejects.toThrow(
    `'onEnd' cannot be the task 'ended'. ${why}`,
  )
})
