import { beforeAll, describe, it } from 'vitest'
import type { BrokerUrls } from '../../../test/services/broker.js'
import { BROKER_MS, sharedBroker } from '../../../test/services/shared-broker.js'
import { busConformance } from '../../testing/index.js'
import { openNats } from './index.js'

let broker: BrokerUrls
beforeAll(async () => {
  broker = await sharedBroker('nats')
}, BROKER_MS)

describe('the NATS bus keeps the contract', () => {
  for (const { name, run } of busConformance(async () => {
    const bus = await openNats(broker.url, { prefix: 'conformance', monitorUrl: broker.httpUrl })
    return { bus, maxBytes: broker.httpUrl === undefined ? undefined : 1024 * 1024 }
  }))
    it(name, { timeout: 60_000 }, run)
})
