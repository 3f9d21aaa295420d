import { appendFileSync } from 'node:fs'
import { textOf } from 'redrive/bus'
import { BROKERS } from './bus-brokers.js'

/*
 * A consumer in a process of its own. It leaves its effects in a file, and dies between an effect and its
 * acknowledgement.
 */

/** The start-up options of the process. */
export interface BusChildOptions {
  readonly broker: 'rabbitmq' | 'nats'
  readonly url: string
  readonly queue: string
  readonly effects: string
  /** It kills itself with -9 after so many effects. */
  readonly dieAfter: number
}

const { broker, url, queue, effects, dieAfter }: BusChildOptions = JSON.parse(process.env.REDRIVE_FAULT_CHILD ?? '')
const bus = await BROKERS.find(({ name }) => name === broker)?.open(url)
let count = 0
await bus?.consume(queue, delivery => {
  appendFileSync(effects, `${textOf(delivery)}\n`)
  if (++count === dieAfter) process.kill(process.pid, 'SIGKILL')
  delivery.ack()
})
