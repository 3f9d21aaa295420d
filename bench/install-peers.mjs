import { fileURLToPath } from 'node:url'
import { install } from '../scripts/install.mjs'

/** Installs the libraries that redrive is compared with. */
export function installPeers() {
  install(fileURLToPath(new URL('.', import.meta.url)), 'the peers')
}
