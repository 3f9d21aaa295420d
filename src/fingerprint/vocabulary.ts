/** The sets below are written as lists of words, which are easier to read and to extend. */
function words(text: string): ReadonlySet<string> {
  return new Set(text.trim().split(/\s+/))
}

/** A name follows these words, or precedes them: `column "street"`, `The "path" argument`. Names are part of the pattern. */
export const NAMED = words(`
  access arg argument arguments attribute class collection column columns command constraint constructor enum exchange field fields
  function header index invocation key-path method model module near operator option package param parameter procedure
  property reading relation role schema setting table topic trigger type variable view queue
`)

/** The values of these keys are part of the pattern: `"code":"too_many_items"`, `path=address.street`. */
export const LABELS = words(`
  code errorcode error_code type status statuscode status_code reason path expected received field param parameter
  validation constraint
`)

/** The values of these keys are messages themselves. */
export const MESSAGES = words('message messages msg detail details error description error_description title')

/** A number after these words is part of the pattern, with at most so many digits: `status 502`, `killed by signal 9`. */
export const NUMBERED: ReadonlyMap<string, number> = new Map([
  ['code', 3],
  ['error', 3],
  ['http', 3],
  ['errno', 5],
  ['exit', 5],
  ['signal', 5],
  ['sqlcode', 5],
  ['sqlstate', 5],
  ['status', 5],
  ['statuscode', 5],
])

/** A number of three digits after these words is a status: `replied 502`, `Invalid login: 535 …`. */
export const ANSWERED = words(
  'answered failed got login rejected replied reply responded response returned said server',
)

/** Units of time, size and money. After a number they go with it. */
export const UNITS = words(`
  ns us µs ms msec msecs millisecond milliseconds s sec secs second seconds m min mins minute minutes h hr hrs hour hours
  d day days week weeks month months year years b byte bytes kb mb gb tb kib mib gib tib bit bits kbit mbit
  percent usd eur gbp px
`)

/** Words that end like a plural and are none: they may follow a value. */
export const VERBS = words(`
  does exists fails waits needs requires expires exceeds contains belongs violates becomes always this refers overlaps
  returns takes uses
`)

/** Words in which the digits belong to the name. */
export const WITH_DIGITS = words(`
  aes128 aes192 aes256 arm64 base32 base58 base64 bcrypt2 crc32 ec2 ed25519 es2015 float32 float4 float64 float8 h264 http1
  http2 http3 i18n int16 int2 int32 int4 int64 int8 ipv4 ipv6 iso8601 k8s l10n log4j md4 md5 mp3 mp4 neo4j oauth1 oauth2
  p12 p256 p384 pbkdf2 pkcs1 pkcs12 pkcs7 pkcs8 rfc2822 rfc3339 route53 rs256 hs256 es256 s3 secp256k1 sha1 sha224 sha256
  sha3 sha384 sha512 socks4 socks5 sqlite3 ssl2 ssl3 tls1 uint16 uint32 uint64 uint8 utf16 utf32 utf8 web3 win32 win64
  x509 x64 x86 x25519 cp1252 latin1 1password 2fa
`)

/** Quoted, these are still no value of anybody. */
export const LITERALS = words('undefined null true false NaN')

/** Names no other word ends with: hosts by their last part. */
export const HOST_ENDS = words('com net org io dev ai internal local localhost example invalid cloud eu uk')
/** Names that properties have too (`logger.info`): hosts only with three parts and more. */
export const LONG_HOST_ENDS = words('app at ch co de fr info me nl svc test us')
/** Files by the end of their names. Not those that properties have too: `response.json`, `console.log`. */
export const FILE_ENDS = words(
  'csv doc docx gif gz jpeg jpg mov mp4 parquet pdf png svg tgz tsv txt wav webp xls xlsx xml',
)
/** A host follows these. */
export const HOST_AFTER = words('ENOTFOUND EAI_AGAIN ENODATA ESERVFAIL')

/** How the reason phrase of a status begins. */
export const REASONS: Readonly<Record<string, string>> = {
  400: 'Bad',
  401: 'Unauthorized',
  402: 'Payment',
  403: 'Forbidden',
  404: 'Not',
  405: 'Method',
  406: 'Not',
  408: 'Request',
  409: 'Conflict',
  410: 'Gone',
  412: 'Precondition',
  413: 'Payload',
  415: 'Unsupported',
  422: 'Unprocessable',
  423: 'Locked',
  425: 'Too',
  429: 'Too',
  500: 'Internal',
  501: 'Not',
  502: 'Bad',
  503: 'Service',
  504: 'Gateway',
  507: 'Insufficient',
  529: 'Overloaded',
}
