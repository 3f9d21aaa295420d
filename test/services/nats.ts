import { mkdtemp } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { BrokerServer } from './broker.js'
import { freePort } from './free-port.js'
import { findProgram } from './programs.js'

const PROGRAM = {
  title: 'NATS',
  file: 'nats-server',
  places: ['/usr/sbin'],
  debianPackage: 'nats-server',
  variable: 'REDRIVE_TEST_NATS_URL',
}

/** Starts a server of our own, with JetStream, on loopback. Its limit for a message is the server's default, 1 MB. */
export async function startNats(more: readonly string[] = []): Promise<BrokerServer> {
  const command = await findProgram(PROGRAM)
  const folder = await mkdtemp(join(tmpdir(), 'redrive-nats-'))
  const [port, httpPort] = [await freePort(), await freePort()]
  const args = ['-js', '-sd', folder, '-a', '127.0.0.1', '-p', String(port), '-m', String(httpPort), ...more]
  return BrokerServer.started({
    title: 'NATS',
    url: `nats://127.0.0.1:${port}`,
    httpUrl: `http://127.0.0.1:${httpPort}`,
    folder,
    command,
    args,
    env: process.env,
    readyText: 'Server is ready',
  })
}
