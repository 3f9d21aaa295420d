import { mkdtemp, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { BrokerServer } from './broker.js'
import { freePort } from './free-port.js'
import { findProgram } from './programs.js'

const PROGRAM = {
  title: 'RabbitMQ',
  file: 'rabbitmq-server',
  // Debian's script on the PATH insists on Debian's own user and service; this is the program behind it.
  places: ['/usr/lib/rabbitmq/bin'],
  debianPackage: 'rabbitmq-server',
  variable: 'REDRIVE_TEST_RABBITMQ_URL',
}

/** The maximum size of a message on the servers that tests start: below the default, so that tests can reach it. */
export const MAX_MESSAGE_BYTES = 8 * 1024 * 1024

/**
 * Starts a node of our own on loopback: with its own name, ports, folders and cookie, and with the management plugin.
 * `more` are further lines of its configuration.
 */
export async function startRabbitmq(more: readonly string[] = []): Promise<BrokerServer> {
  const command = await findProgram(PROGRAM)
  const folder = await mkdtemp(join(tmpdir(), 'redrive-rabbitmq-'))
  const [port, httpPort, distPort, epmdPort] = [await freePort(), await freePort(), await freePort(), await freePort()]
  await writeFile(join(folder, 'plugins'), '[rabbitmq_management].')
  await writeFile(
    join(folder, 'rabbitmq.conf'),
    `listeners.tcp.1 = 127.0.0.1:${port}
     management.tcp.ip = 127.0.0.1
     management.tcp.port = ${httpPort}
     max_message_size = ${MAX_MESSAGE_BYTES}
     ${more.join('\n')}\n`.replace(/^ +/gm, ''),
  )
  const env = {
    ...process.env,
    HOME: folder,
    ERL_EPMD_ADDRESS: '127.0.0.1',
    ERL_EPMD_PORT: String(epmdPort),
    RABBITMQ_CONFIG_FILE: join(folder, 'rabbitmq'),
    RABBITMQ_DIST_PORT: String(distPort),
    RABBITMQ_ENABLED_PLUGINS_FILE: join(folder, 'plugins'),
    RABBITMQ_LOGS: '-',
    RABBITMQ_LOG_BASE: join(folder, 'log'),
    RABBITMQ_MNESIA_BASE: join(folder, 'mnesia'),
    RABBITMQ_NODENAME: `redrive-${port}@localhost`,
    // Not under systemd; but so the script becomes the server, instead of starting it as another process.
    RUNNING_UNDER_SYSTEMD: 'true',
  }
  return BrokerServer.started({
    title: 'RabbitMQ',
    url: `amqp://127.0.0.1:${port}`,
    httpUrl: `http://127.0.0.1:${httpPort}`,
    folder,
    command,
    args: [],
    env,
    readyText: 'Server startup complete',
    // Erlang's name server. RabbitMQ would start one that outlives it.
    helper: { command: 'epmd', args: [] },
  })
}
