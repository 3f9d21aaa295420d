import type { MsgRequest, StoredMsg, StreamInfo } from '@nats-io/jetstream'
import type { FailedMessage } from '../bus.js'
import type { NatsConnection } from './connection.js'
import type { NatsDriver } from './driver.js'
import { type Headers, readableHeaders } from './headers.js'
import { fromNats } from './message.js'

/** Reads the messages that are in a stream now, one by one. Reading does not change a stream. */
export async function* browseStream(
  connection: NatsConnection,
  driver: NatsDriver,
  { config, state }: StreamInfo,
  failedQueue: string,
  limit: number,
): AsyncGenerator<FailedMessage> {
  const { streams } = connection.manager
  let sequence = state.first_seq
  for (let left = limit; left > 0 && sequence <= state.last_seq; left--) {
    // Get the first message at or after this sequence, since messages in between may have been removed.
    const next: MsgRequest & { next_by_subj: string } = { seq: sequence, next_by_subj: '>' }
    const message = await streams.getMessage(config.name, next)
    if (message === null || message.seq > state.last_seq) return
    const { seq, data } = message
    sequence = seq + 1
    yield {
      ...fromNats(failedQueue, data, await storedHeaders(connection, driver, config.name, message)),
      async remove() {
        await streams.deleteMessage(config.name, seq, false)
      },
    }
  }
}

/** Reads the headers of a stored message. Those that the client refuses are asked for once more, as bytes. */
async function storedHeaders(
  { client, jetstream }: NatsConnection,
  { transport }: NatsDriver,
  stream: string,
  message: StoredMsg,
): Promise<Headers> {
  try {
    return { headers: message.header }
  } catch (problem) {
    const request = JSON.stringify({ seq: message.seq })
    const answer = await client.request(`${jetstream.apiPrefix}.STREAM.MSG.GET.${stream}`, request)
    const { message: stored } = answer.json<{ message?: { hdrs?: string } }>()
    return readableHeaders(Buffer.from(stored?.hdrs ?? '', 'base64'), problem, transport.headers())
  }
}
