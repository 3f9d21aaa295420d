import type { Pool } from 'pg'
import { OptionError } from '../../policy/index.js'
import { isObject } from '../../policy/internal.js'

/** A store's URL, taken apart: `?schema=NAME` is for Redrive, and all else for the driver. */
export interface StoreUrl {
  /** The URL for the driver. */
  readonly url: string
  readonly schema: string | undefined
}

/** Parameters of a URL that libpq or the driver know. The driver ignores some; none changes which store is meant. */
const PASSED_ON = new Set(
  `application_name channel_binding client_encoding connect_timeout db encoding fallback_application_name gssencmode host
   idle_in_transaction_session_timeout keepalives keepalives_count keepalives_idle keepalives_interval krbsrvname
   load_balance_hosts lock_timeout options passfile password port query_timeout require_auth service ssl sslcert
   sslcompression sslcrl sslkey sslmode sslnegotiation sslpassword sslrootcert sslsni statement_timeout
   target_session_attrs tcp_user_timeout uselibpqcompat user`.split(/\s+/),
)

/**
 * Reads the URL of a PostgreSQL server, for stores and sources alike. Refuses what `pg` would misread: it takes
 * `host=db password=…` for the name of a database, and ignores parameters that it does not know. The error does not repeat
 * the text, which may hold a password.
 */
export function readStoreUrl(option: string, text: unknown): StoreUrl {
  if (typeof text !== 'string')
    throw new OptionError(
      option,
      `'${option}' must be a URL or a pool of 'pg', got ${text === null ? 'null' : typeof text}.`,
    )
  const isSocket = text.startsWith('/')
  if (!isSocket && !isUrl(text))
    throw new OptionError(
      option,
      `'${option}' must be a URL such as 'postgres://user:password@host/database', with special characters in the password percent-encoded, such as '@' as '%40'.`,
    )
  const [address = '', query = ''] = isSocket ? [text] : text.split(/\?(.*)/s, 2)
  const parameters = query.split('&').filter(Boolean)
  const nameOf = (parameter: string) => [...new URLSearchParams(parameter).keys()].join()
  const unknown = parameters.map(nameOf).find(name => name !== 'schema' && !PASSED_ON.has(name))
  // An unescaped '?' in a password makes the rest of the password a name.
  const name = unknown !== undefined && /^\w+$/.test(unknown) ? ` '${unknown}'` : ''
  if (unknown !== undefined)
    throw new OptionError(
      option,
      `The URL has a parameter${name}, which neither Redrive nor PostgreSQL knows. Leave it out of the URL; for a schema, pass 'schema'.`,
    )
  const others = parameters.filter(parameter => nameOf(parameter) !== 'schema')
  const schema = new URLSearchParams(query).get('schema') ?? undefined
  return { url: others.length === 0 ? address : `${address}?${others.join('&')}`, schema }
}

function isUrl(text: string): boolean {
  // `pg` allows an empty host, Node does not.
  return /^(postgres|postgresql|socket):/i.test(text) && URL.canParse(text.replace('@/', '@localhost/'))
}

/** Whether a server was given as a pool, not as a URL. */
export function isPool(at: unknown): at is Pool {
  return isObject(at) && typeof at.connect === 'function'
}

/** Checks the schema of a store. */
export function checkSchema(schema: string): void {
  if (schema === 'public')
    throw new OptionError(
      'schema',
      "A store needs a schema of its own, and 'public' has the tables of others. If the URL is that of another tool (Prisma's has '?schema=public'), leave the parameter out of it, or name the schema of the store: 'redrive' by default.",
    )
  if (!/^[a-z_][a-z0-9_]{0,49}$/.test(schema) || schema.startsWith('pg_'))
    throw new OptionError('schema', `'schema' must be a name of lower-case letters, digits and _, got '${schema}'.`)
}
