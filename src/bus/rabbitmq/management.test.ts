import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { inspect } from 'node:util'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { Management } from './management.js'

const BUS = new URL('amqp://ada:hunter2@broker/orders')

/** Each request's path and credentials. */
const seen: string[] = []
const server = createServer(({ url, headers: { authorization = '' } }, response) => {
  const [, credentials = ''] = authorization.split(' ')
  seen.push(`${url} ${Buffer.from(credentials, 'base64')}`)
  response.writeHead(authorization === '' || url?.includes('locked') ? 401 : 200).end('[]')
})
let host: string
beforeAll(async () => {
  await once(server.listen(0, '127.0.0.1'), 'listening')
  host = `127.0.0.1:${(server.address() as AddressInfo).port}`
})
afterAll(() => server.close())

it('is not sent the password of the bus', async () => {
  await new Management(`http://${host}`, BUS).isBound('x', 'chunking', 'json.parsed')
  expect(seen.pop()).toBe('/api/bindings/orders/e/x/q/chunking guest:guest')
})

it('is sent the credentials of its own URL, below the path of that URL', async () => {
  await new Management(`http://bob:p%40ss@${host}/rabbit`, BUS).isBound('x', 'chunking', 'json.parsed')
  expect(seen.pop()).toBe('/rabbit/api/bindings/orders/e/x/q/chunking bob:p@ss')
})

it('says what to do where it is refused, and repeats no password', async () => {
  const refused = new Management(`http://bob:hunter3@${host}/locked`, BUS).queue('chunking')
  await expect(refused).rejects.toThrow(`the management of RabbitMQ at ${host} (The answer was 401 Unauthorized.`)
  await expect(refused).rejects.toThrow('Put a user and a password into its URL')
  expect(inspect(await refused.catch(error => error), { depth: 9 })).not.toMatch(/hunter/)
})
