import type { JetStreamManager, MsgRequest, StreamInfo } from '@nats-io/jetstream'
import type { FailedMessage } from '../bus.js'
import { fromNats } from './message.js'

/** Reads the messages that are in a stream now, one by one. Reading does not change a stream. */
export async function* browseStream(
  { streams }: JetStreamManager,
  { config, state }: StreamInfo,
  failedQueue: string,
  limit: number,
): AsyncGenerator<FailedMessage> {
  let sequence = state.first_seq
  for (let left = limit; left > 0 && sequence <= state.last_seq; left--) {
    // Get the first message at or after this sequence, since messages in between may have been removed.
    const next: MsgRequest & { next_by_subj: string } = { seq: sequence, next_by_subj: '>' }
    const message = await streams.getMessage(config.name, next)
    if (message === null || message.seq > state.last_seq) return
    const { seq, data, header } = message
    sequence = seq + 1
    yield {
      ...fromNats(failedQueue, data, header),
      async remove() {
        await streams.deleteMessage(config.name, seq, false)
      },
    }
  }
}
