import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Bus, type Delivery, type FailedMessage, type NewMessage, textOf } from '../../bus/index.js'

/** A bus for one case. Buses that share a broker are fine, since the cases share no queues and no types. */
export interface BusUnderTest {
  /** The bus to test. */
  readonly bus: Bus
  /** The largest body that it takes, if it has a limit that a test can reach. */
  readonly maxBytes?: number
  /** Frees what `open` made. */
  close?(): Promise<void>
}

/** The surroundings of a case: the bus, and names that no other case uses. */
export interface Scene {
  readonly bus: Bus
  readonly maxBytes: number | undefined
  /** A queue that takes `type`. Not declared yet. */
  readonly queue: string
  readonly type: string
}

/** Shows one piece of behaviour; rejects if the bus does not have it. */
export type BusBehaviour = (scene: Scene) => Promise<void>

/** Named behaviours of one theme. */
export type BusBehaviours = Readonly<Record<string, BusBehaviour>>

/** A queue that a consumer has emptied so far, and what it took. */
export interface Collected {
  readonly deliveries: Delivery[]
  /** Resolves once there are so many. */
  reach(count: number): Promise<void>
  stop(): Promise<void>
}

/** A scene whose queue is declared. */
export async function declared({ bus, queue, type }: Scene): Promise<void> {
  await bus.declare({ [queue]: type })
}

/** An event with a random id. */
export function event(type: string, body: string | Uint8Array = '{}', more: Partial<NewMessage> = {}): NewMessage {
  return { id: crypto.randomUUID(), type, body, ...more }
}

/** Publishes events with these bodies, each once the one before is confirmed. */
export async function publishAll({ bus, type }: Scene, bodies: readonly string[]): Promise<void> {
  for (const body of bodies) await bus.publish(event(type, body))
}

/** Puts messages with these bodies into a failed queue, in their order. */
export async function putAll({ bus, type }: Scene, queue: string, bodies: readonly string[]): Promise<void> {
  for (const body of bodies) await bus.put(queue, event(type, body))
}

/** Collects the deliveries of a queue and hands each to `onDelivery`, which acknowledges by default. */
export async function collect(
  bus: Bus,
  queue: string,
  {
    prefetch,
    onDelivery = delivery => delivery.ack(),
  }: { prefetch?: number; onDelivery?: (delivery: Delivery) => void } = {},
): Promise<Collected> {
  const deliveries: Delivery[] = []
  const take = (delivery: Delivery) => {
    deliveries.push(delivery)
    onDelivery(delivery)
  }
  const consumer = await bus.consume(queue, take, { prefetch })
  return {
    deliveries,
    reach: count => until(`${count} deliveries have come from '${queue}'`, () => deliveries.length >= count),
    stop: () => consumer.stop(),
  }
}

/** Acknowledges and returns the messages that wait in a queue: at least `count`, plus any that come with them. */
export async function drain(bus: Bus, queue: string, count: number): Promise<string[]> {
  const collected = await collect(bus, queue)
  await collected.reach(count)
  await settle()
  await collected.stop()
  return bodies(collected.deliveries)
}

/** All that can be browsed. */
export async function browseAll(bus: Bus, queue: string, limit?: number): Promise<FailedMessage[]> {
  const messages: FailedMessage[] = []
  for await (const message of bus.browse(queue, { limit })) messages.push(message)
  return messages
}

/** The bodies of messages, as text. */
export function bodies(messages: readonly { readonly body: Uint8Array }[]): string[] {
  return messages.map(textOf)
}

/** Asserts that a promise rejects with this code. */
export async function assertRefused(promise: Promise<unknown>, code: string): Promise<void> {
  await assert.rejects(promise, (error: { code?: unknown }) => {
    assert.equal(error.code, code)
    return true
  })
}

/** Asserts that lists have the same members, in any order. */
export function assertSame(actual: readonly string[], expected: readonly string[]): void {
  assert.deepEqual([...actual].sort(), [...expected].sort())
}

/** Waits; by default, for long enough that a broker delivers what it has to deliver. */
export async function settle(ms = 150): Promise<void> {
  await sleep(ms)
}

/** Waits for something that must come by itself. */
export async function until(what: string, isSo: () => boolean, withinMs = 15_000): Promise<void> {
  const latest = performance.now() + withinMs
  while (!isSo()) {
    if (performance.now() > latest) throw new assert.AssertionError({ message: `It took too long until ${what}.` })
    await sleep(5)
  }
}

/** The numbers from 1 on, as text. */
export function numbers(count: number): string[] {
  return Array.from({ length: count }, (_, index) => String(index + 1))
}
