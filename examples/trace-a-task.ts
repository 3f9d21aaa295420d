/** A request enqueues a task. The task fails twice and is retried: each attempt is a span, and the ledger names its trace. */
import assert from 'node:assert/strict'
import { context, trace } from '@opentelemetry/api'
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks'
import { BasicTracerProvider, InMemorySpanExporter, SimpleSpanProcessor } from '@opentelemetry/sdk-trace-base'
import { traceWork } from 'redrive/otel'
import { MemoryStore } from 'redrive/store'
import { defineTask, TaskQueue, Worker } from 'redrive/task'

// Your application starts its own SDK here, with an exporter to your collector.
const exporter = new InMemorySpanExporter()
context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable())
trace.setGlobalTracerProvider(new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] }))
await traceWork()

const charge = defineTask('charge', {
  policy: { attempts: 3, backoff: 'none' },
  handler: async (_: { order: number }, { attempt }) => {
    if (attempt < 3) throw Object.assign(new Error('The gateway is down.'), { status: 503 })
  },
})

const store = new MemoryStore()
const queue = new TaskQueue(store)
const worker = new Worker(store, { tasks: [charge] })
await worker.start()
const { id, traceId } = await trace.getTracer('shop').startActiveSpan('POST /orders', async request => {
  const { id } = await queue.enqueue(charge, { order: 42 })
  request.end()
  return { id, traceId: request.spanContext().traceId }
})
await queue.result(id)
await worker.stop()

for (const span of exporter.getFinishedSpans()) {
  const { 'redrive.attempt': attempt = '-', 'redrive.outcome': outcome = '' } = span.attributes
  const links = span.links.length === 0 ? '' : ', linked to the request'
  console.log(`${span.spanContext().traceId.slice(0, 8)}  ${span.name}  attempt ${attempt} ${outcome}${links}`)
}

const [first, second, third] = await store.ledger(id)
assert.equal(first?.trace, traceId)
assert.notEqual(second?.trace, traceId)
assert.notEqual(third?.trace, second?.trace)
