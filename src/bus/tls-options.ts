/** The certificates of a TLS connection, each as PEM text, such as `readFileSync('ca.pem', 'utf8')`. */
export interface TlsOptions {
  /** The certificate authority that signed the broker's certificate. Default: the authorities that Node trusts. */
  readonly ca?: string | undefined
  /** The client's certificate, for a broker that asks for one. */
  readonly cert?: string | undefined
  /** The private key of `cert`. */
  readonly key?: string | undefined
  /** The passphrase that decrypts `key`. */
  readonly passphrase?: string | undefined
  /** The name that the broker's certificate must have. Default: the host of the URL. */
  readonly servername?: string | undefined
}
