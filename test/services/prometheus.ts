import { mkdtemp, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { BrokerServer } from './broker.js'
import { freePort } from './free-port.js'
import { findProgram } from './programs.js'

const PROGRAM = {
  title: 'Prometheus',
  file: 'prometheus',
  places: [],
  debianPackage: 'prometheus',
}

/** Starts a Prometheus of our own on loopback, which scrapes this address (`host:port`) five times a second. */
export async function startPrometheus(target: string): Promise<BrokerServer> {
  const command = await findProgram(PROGRAM)
  const folder = await mkdtemp(join(tmpdir(), 'redrive-prometheus-'))
  const config = join(folder, 'prometheus.yml')
  await writeFile(
    config,
    `scrape_configs: [{ job_name: redrive, scrape_interval: 200ms, scrape_timeout: 200ms, static_configs: [{ targets: ['${target}'] }] }]\n`,
  )
  const listen = `127.0.0.1:${await freePort()}`
  return BrokerServer.started({
    title: 'Prometheus',
    url: `http://${listen}`,
    folder,
    command,
    args: [`--config.file=${config}`, `--storage.tsdb.path=${join(folder, 'data')}`, `--web.listen-address=${listen}`],
    env: process.env,
    readyText: 'Server is ready',
  })
}
