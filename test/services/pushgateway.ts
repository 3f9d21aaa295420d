import { mkdtemp } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { BrokerServer } from './broker.js'
import { freePort } from './free-port.js'
import { findProgram } from './programs.js'

const PROGRAM = {
  title: 'Pushgateway',
  file: 'prometheus-pushgateway',
  places: [],
  debianPackage: 'prometheus-pushgateway',
}

/** Starts a Pushgateway of our own on loopback. */
export async function startPushgateway(): Promise<BrokerServer> {
  const command = await findProgram(PROGRAM)
  const folder = await mkdtemp(join(tmpdir(), 'redrive-pushgateway-'))
  const listen = `127.0.0.1:${await freePort()}`
  return BrokerServer.started({
    title: 'Pushgateway',
    url: `http://${listen}`,
    folder,
    command,
    args: [`--web.listen-address=${listen}`],
    env: process.env,
    readyText: 'Listening on',
  })
}
