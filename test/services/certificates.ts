import { execFile } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { TlsOptions } from '../../src/bus/index.js'

const openssl = (args: readonly string[]) => promisify(execFile)('openssl', args)

/** A certificate and its key, as files. */
export interface Certificate {
  readonly cert: string
  readonly key: string
}

/** An authority made for one test run, and what it has signed. All of it is in one folder. */
export class Certificates {
  readonly folder = mkdtempSync(join(tmpdir(), 'redrive-tls-'))
  readonly ca = join(this.folder, 'ca.pem')
  #servers = 0

  /** Makes an authority. */
  static async create(): Promise<Certificates> {
    const made = new Certificates()
    const subject = ['-subj', '/CN=Redrive test authority']
    await openssl(['req', '-x509', ...NEW_KEY, '-keyout', made.#keyOf('ca'), '-out', made.ca, '-days', '2', ...subject])
    return made
  }

  /** For a server on loopback, unless the extension says otherwise. */
  server(extension = 'subjectAltName=DNS:localhost,IP:127.0.0.1'): Promise<Certificate> {
    return this.#sign(`server-${this.#servers++}`, 'localhost', extension)
  }

  /** For a client of this name. */
  client(name: string): Promise<Certificate> {
    return this.#sign(name, name, 'extendedKeyUsage=clientAuth')
  }

  /** The texts of the authority's and a client's certificate, as options take them. */
  options({ cert, key }: Certificate): TlsOptions {
    return { ca: readFileSync(this.ca, 'utf8'), cert: readFileSync(cert, 'utf8'), key: readFileSync(key, 'utf8') }
  }

  remove(): void {
    rmSync(this.folder, { recursive: true, force: true })
  }

  async #sign(file: string, name: string, extension: string): Promise<Certificate> {
    const [request, extensions] = [join(this.folder, `${file}.csr`), join(this.folder, `${file}.ext`)]
    const made = { cert: join(this.folder, `${file}.pem`), key: this.#keyOf(file) }
    writeFileSync(extensions, extension)
    await openssl(['req', ...NEW_KEY, '-keyout', made.key, '-out', request, '-subj', `/CN=${name}`])
    const authority = ['-CA', this.ca, '-CAkey', this.#keyOf('ca'), '-CAcreateserial']
    const files = ['-in', request, '-out', made.cert, '-extfile', extensions]
    await openssl(['x509', '-req', ...files, ...authority, '-days', '2'])
    return made
  }

  #keyOf(file: string): string {
    return join(this.folder, `${file}.key`)
  }
}

const NEW_KEY = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes']
