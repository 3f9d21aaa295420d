import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { inspect } from 'node:util'
import type { TestProject } from 'vitest/node'
import { type Databases, FAST, findPostgres } from './postgres.js'
import { postgresPrograms } from './postgres-programs.js'
import { SharedBrokers } from './shared-brokers.js'

declare module 'vitest' {
  export interface ProvidedContext {
    /** Where test files ask for what they share. */
    services: string
  }
}

/**
 * One PostgreSQL, one RabbitMQ and one NATS for all test files of a run, each started when the first of them asks for
 * it, so that a run which needs none does not wait for it.
 */
export default async function ({ provide }: TestProject) {
  // Where it must be installed first, that takes longer than a test may. Who asks for it is told what went wrong.
  if (process.env.REDRIVE_TEST_POSTGRES_URL === undefined) await postgresPrograms().catch(() => {})

  let postgres: Promise<Databases> | undefined
  const brokers = new SharedBrokers()
  const server = createServer(async (request, response) => {
    try {
      const broker = await brokers.find(request.url?.slice(1) ?? '')
      if (broker !== undefined) return void response.end(JSON.stringify(broker))
      postgres ??= findPostgres({ ...FAST, max_connections: '300' })
      response.end(await (await postgres).createDatabase())
    } catch (error) {
      response.writeHead(500).end(inspect(error))
    }
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  provide('services', `http://127.0.0.1:${(server.address() as AddressInfo).port}`)

  return async () => {
    server.closeAllConnections()
    server.close()
    await brokers.close()
    await postgres?.then(
      databases => databases.close(),
      () => {},
    )
  }
}
