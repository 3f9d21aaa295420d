import { failedQueueOf, isFailedQueue } from '../bus.js'

/**
 * What things are called in NATS, where names of streams and consumers have no dots. With the prefix `redrive`:
 *
 *   the type `json.parsed`        stream `redrive+json+parsed`, subject `redrive.json.parsed`
 *   the queue `chunking`          durable consumer `chunking` of that stream
 *   its failed queue              stream `redrive-failed+chunking`, subject `redrive-failed.chunking`
 */
export class NatsNames {
  constructor(readonly prefix: string) {}

  /** The stream of an event's type. */
  streamOf(type: string): string {
    return withoutDots(`${this.prefix}.${type}`)
  }

  subjectOf(type: string): string {
    return `${this.prefix}.${type}`
  }

  /** What a stream listens to until its first queue is there: nobody publishes to it. */
  closedSubjectOf(type: string): string {
    return `${this.prefix}-closed.${type}`
  }

  /** The type that a stream is for. */
  typeOf(stream: string): string {
    return stream.slice(this.prefix.length + 1).replaceAll('+', '.')
  }

  /** Whether a stream is for a type. */
  isStream(stream: string): boolean {
    return stream.startsWith(`${this.prefix}+`)
  }

  consumerOf(queue: string): string {
    return withoutDots(queue)
  }

  /** The queue that a consumer is. */
  queueOf(consumer: string): string {
    return consumer.replaceAll('+', '.')
  }

  failedStreamOf(failedQueue: string): string {
    return withoutDots(this.failedSubjectOf(failedQueue))
  }

  /** The failed queue that a stream is; `undefined` if it is none. */
  failedQueueOf(stream: string): string | undefined {
    const start = withoutDots(this.failedSubjectOf(''))
    return stream.startsWith(start) ? failedQueueOf(this.queueOf(stream.slice(start.length))) : undefined
  }

  failedSubjectOf(failedQueue: string): string {
    const suffix = isFailedQueue(failedQueue) ? failedQueueOf('').length : 0
    return `${this.prefix}-failed.${failedQueue.slice(0, failedQueue.length - suffix)}`
  }
}

function withoutDots(name: string): string {
  return name.replaceAll('.', '+')
}
