import { appendFileSync, writeSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { BusUnavailableError, type NewMessage, PublishUnconfirmedError } from 'redrive/bus'
import { Outbox } from 'redrive/event'
import { openPostgres } from 'redrive/postgres'
import { openSqlite } from 'redrive/sqlite'

/*
 * A relay in a process of its own. It says `ready` when it works. What it publishes is a line in a file that all relays
 * share, so that the order of the lines is the order of the publishes. Its bus is away now and then, or does not
 * confirm.
 */

/** The start-up options of the process. */
export interface RelayChildOptions {
  readonly url: string
  readonly published: string
  readonly leaseMs: number
}

/** A line of the file. */
export interface PublishedLine {
  readonly id: string
  readonly body: string
  readonly pid: number
  readonly isConfirmed: boolean
}

const { url, published, leaseMs }: RelayChildOptions = JSON.parse(process.env.REDRIVE_FAULT_CHILD ?? '')
const someMs = () => sleep(Math.random() * 4)

const bus = {
  async publish({ id, body }: NewMessage) {
    await someMs()
    if (Math.random() < 0.2) throw new BusUnavailableError('the bus')
    const line: PublishedLine = { id, body: String(body), pid: process.pid, isConfirmed: Math.random() < 0.85 }
    appendFileSync(published, `${JSON.stringify(line)}\n`)
    await someMs()
    if (!line.isConfirmed) throw new PublishUnconfirmedError(id, 'the bus')
  },
}
const outbox = url.startsWith('sqlite:')
  ? new Outbox(await openSqlite(url.slice('sqlite:'.length)))
  : new Outbox(await openPostgres(url))
const relay = outbox.relay(bus, { lease: leaseMs, policy: { backoff: { base: '2ms', max: '20ms' } } })
process.once('SIGTERM', async () => {
  await relay.stop()
  process.exit(0)
})
await relay.start()
writeSync(1, 'ready\n')
