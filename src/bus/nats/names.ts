import { failedQueueOf, isFailedQueue } from '../bus.js'

/**
 * Names of streams, consumers and subjects in NATS. Stream and consumer names cannot have dots. With the prefix
 * `redrive`:
 *
 *   the type `json.parsed`        stream `redrive+json+parsed`, subject `redrive.json.parsed`
 *   the queue `chunking`          durable consumer `chunking` of that stream
 *   its failed queue              stream `redrive-failed+chunking`, subject `redrive-failed.chunking`
 */
export class NatsNames {
  constructor(readonly prefix: string) {}

  /** The stream for a type of events. */
  streamOf(type: string): string {
    return withoutDots(`${this.prefix}.${type}`)
  }

  subjectOf(type: string): string {
    return `${this.prefix}.${type}`
  }

  /** The subject of a stream until its first queue exists. Nobody publishes to it. */
  closedSubjectOf(type: string): string {
    return `${this.prefix}-closed.${type}`
  }

  /** The type of events in a stream. */
  typeOf(stream: string): string {
    return stream.slice(this.prefix.length + 1).replaceAll('+', '.')
  }

  /** Returns whether a stream holds a type of events, rather than failed messages. */
  isStream(stream: string): boolean {
    return stream.startsWith(`${this.prefix}+`)
  }

  consumerOf(queue: string): string {
    return withoutDots(queue)
  }

  /** The queue that a consumer implements. */
  queueOf(consumer: string): string {
    return consumer.replaceAll('+', '.')
  }

  failedStreamOf(failedQueue: string): string {
    return withoutDots(this.failedSubjectOf(failedQueue))
  }

  /** The failed queue that a stream implements; `undefined` for other streams. */
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
