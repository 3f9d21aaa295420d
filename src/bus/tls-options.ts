/** The certificates of a TLS connection, each as PEM text, such as `readFileSync('ca.pem', 'utf8')`. */
export interface TlsOptions {
  /** The certificate authority that signed the broker's certificate. Default: the authorities that Node trusts. */
  readonly ca?: string
  /** The client's certificate, for a broker that asks for one. */
  readonly cert?: string
  /** The private key of `cert`. */
  readonly key?: string
  /** The passphrase that decrypts `key`. */
  readonly passphrase?: string
  /** The name that the broker's certificate must have. Default: the host of the URL. */
  readonly servername?: string
}
