const CERTIFICATE =
  /^(SELF_SIGNED_CERT_IN_CHAIN|DEPTH_ZERO_SELF_SIGNED_CERT|UNABLE_TO_(VERIFY_LEAF_SIGNATURE|GET_ISSUER_CERT(_LOCALLY)?)|CERT_)/

/** Says what to do about a connection that did not come up, by the error of the driver or of Node. */
export function connectAdvice(error: unknown): string {
  const code = error instanceof Error && 'code' in error ? String(error.code) : ''
  const text = error instanceof Error ? error.message : ''
  if (code === 'ENOTFOUND' || code === 'EAI_AGAIN') return 'Is the name of the host right?'
  if (code === 'ETIMEDOUT' || code === 'EHOSTUNREACH') return 'Is the address right, and no firewall in between?'
  if (code === 'ERR_TLS_CERT_ALTNAME_INVALID')
    return 'Its certificate is for another host: use the name in the certificate.'
  if (CERTIFICATE.test(code))
    return 'Its certificate is not trusted: name the authority that signed it, with sslrootcert=FILE.'
  if (/does not support SSL/i.test(text))
    return 'It has no TLS: leave sslmode out of the URL, or switch TLS on at the server.'
  // PostgreSQL's code for it, and RabbitMQ's words.
  if (code === '53300' || /too many (clients|connections)/i.test(text))
    return 'Close other connections, raise its limit, or put a pooler in between.'
  return 'Is the server running, and is the address right?'
}
