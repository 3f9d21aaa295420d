import { beforeAll, describe, it } from 'vitest'
import type { BrokerUrls } from '../../../test/services/broker.js'
import { MAX_MESSAGE_BYTES } from '../../../test/services/rabbitmq.js'
import { BROKER_MS, sharedBroker } from '../../../test/services/shared-broker.js'
import { busConformance } from '../../testing/index.js'
import { openRabbitmq } from './index.js'

let broker: BrokerUrls
beforeAll(async () => {
  broker = await sharedBroker('rabbitmq')
}, BROKER_MS)

describe('the RabbitMQ bus keeps the contract', () => {
  for (const { name, run } of busConformance(async () => {
    const bus = await openRabbitmq(broker.url, { exchange: 'conformance', managementUrl: broker.httpUrl })
    return { bus, maxBytes: broker.httpUrl === undefined ? undefined : MAX_MESSAGE_BYTES }
  }))
    it(name, { timeout: 60_000 }, run)
})
