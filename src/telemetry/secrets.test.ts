import { describe, expect, test } from 'vitest'
import { cpuTime } from '../../test/cpu-time.js'
import { redact } from './redact.js'
import { redactContext } from './redact-context.js'
import { isSecretKey, withoutSecrets } from './secrets.js'

const secret = 'S3cr3tV4lue'

describe('the whole value is redacted of', () => {
  const pem = (head: string) =>
    `-----BEGIN ${head}-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,${secret}\n\n${secret}\n-----END ${head}-----`
  const texts: Readonly<Record<string, readonly string[]>> = {
    'an Authorization header': [
      `Authorization: Digest username="ada", realm="x", response="${secret}"`,
      `Authorization: AWS4-HMAC-SHA256 Credential=x/us-east-1, SignedHeaders=host, Signature=${secret}`,
      `sent Authorization: Token ${secret}, got 401`,
      `authorization: ${secret} ${secret}`,
      `Proxy-Authorization: NTLM ${secret}`,
      `{ authorization: 'Digest username="ada", response="${secret}"', host: 'x' }`,
      `"{\\"Authorization\\":\\"Digest a=\\\\\\"b\\\\\\", response=${secret}\\"}"`,
      `["Authorization","Negotiate ${secret}"]`,
      `[ 'authorization', '${secret}' ]`,
    ],
    'a cookie': [
      `Cookie: theme="dark"; session=${secret}`,
      `Set-Cookie: a="x", sid=${secret}; Path=/`,
      `got cookie a="b" and ${secret}`.replace('cookie a', 'cookie: a'),
      `{"cookie":"a=\\"b\\"; sid=${secret}"}`,
      `{"set-cookie":["a=b","sid=${secret}"]}`,
    ],
    'a name that ends in pass': [
      `pass=${secret}`,
      `DB_PASS=${secret}`,
      `dbPass: ${secret}`,
      `smtp.pass: '${secret}'`,
      `{"pass":"${secret}"}`,
      `PGPASS=${secret}`,
    ],
    'a list or an object under a secret name': [
      `"tokens":["${secret}","b"]`,
      `passwords = ['a', '${secret}']`,
      `{ credentials: { user: 'a', key: '${secret}' }, x: 1 }`,
      `{"apiKeys":[["a"],{"b":"]${secret}"}]}`,
    ],
    'a cloud key or signature': [
      `DefaultEndpointsProtocol=https;AccountName=x;AccountKey=${secret}==;EndpointSuffix=core.windows.net`,
      `Endpoint=sb://x/;SharedAccessKeyName=y;SharedAccessKey=${secret}=`,
      `https://b.s3.amazonaws.com/k?X-Amz-Credential=${secret}&X-Amz-Signature=${secret}`,
      `https://x.blob.core.windows.net/c?sv=2020&sig=${secret}%3D&se=2030`,
      `https://storage.googleapis.com/b/o?X-Goog-Signature=${secret}`,
      `AWSAccessKeyId=${secret}`,
      `Ocp-Apim-Subscription-Key: ${secret}`,
    ],
    'a private key': [
      pem('RSA PRIVATE KEY'),
      pem('ENCRYPTED PRIVATE KEY'),
      pem('PGP PRIVATE KEY BLOCK'),
      `key: ${pem('EC PRIVATE KEY').replaceAll('\n', '\\n')}`,
      `-----BEGIN PRIVATE KEY-----\n${secret}`,
    ],
    'the credentials in a URL': [
      `postgres://app:pa/ss${secret}@db/orders`,
      `amqp://app:/${secret}/@db`,
      `redis://:a#b?${secret}@cache`,
      `nats://${secret}@broker:4222`,
      `https://${secret}@github.com/x.git`,
      `https://${secret}${secret}:x-oauth-basic@github.com/x.git`,
      `postgres://app:@${secret}@db`,
    ],
    'a value with quotes, commas or brackets in it': [
      `password=a"${secret}`,
      `password=a'b,${secret}`,
      `password=a)${secret} user=x`,
      `host=db password=a'${secret} user=x`,
      `token:\n    '${secret}',\n`,
      `password="a\n${secret}"`,
    ],
    'a line that is a header or a setting': [
      `GET / HTTP/1.1\nX-Api-Key: a ${secret}\nHost: x`,
      `passphrase: correct horse ${secret}`,
      `  client_secret: a b ${secret}`,
    ],
    'the number or the code of a card': [
      `{"card":{"cvc":"${secret}"}}`,
      `{"card":{"cvv2":${secret}},"x":1}`,
      `{ cardCvc: '${secret}', csc: '${secret}', card_csc: '${secret}' }`,
      `{"pan":"${secret}"}`,
      `card.pan=${secret}`,
      `"cardNumber":"${secret}"`,
      `credit_card_no=${secret}`,
      `Card number: ${secret}`,
    ],
    'other forms': [
      `{"password" => "${secret}"}`,
      `<Password>${secret}</Password>`,
      `mysql --password ${secret} --host x`,
      `spawn x [ '--api-token', '${secret}' ]`,
      `?next=%2F%3Fpassword%3D${secret}`,
      `api key: ${secret}`,
      `glpat-${secret}${secret} and AIza${secret}${secret}${secret}${secret}`,
    ],
  }
  for (const [what, samples] of Object.entries(texts)) {
    describe(what, () => {
      test.each(samples.map(text => [JSON.stringify(text.replaceAll(secret, '***')), text]))('%s', (_, text) => {
        expect(redact(text)).not.toContain(secret)
        expect(redact(text)).toContain('[redacted]')
        expect(redact(redact(text))).toBe(redact(text))
      })
    })
  }
})

test('what follows a secret stays', () => {
  for (const [text, expected] of [
    ['password=x&user=ada', 'password=[redacted]&user=ada'],
    ['host=db password=x user=ada', 'host=db password=[redacted] user=ada'],
    ['{"password":"x","user":"ada"}', '{"password":[redacted],"user":"ada"}'],
    ['{"dsn":"password=x","user":"ada"}', '{"dsn":"password=[redacted]","user":"ada"}'],
    ['{"card":{"cvc":"123"},"amount":5}', '{"card":{"cvc":[redacted]},"amount":5}'],
    ['{"card":{"cvc":null},"hasToken":true}', '{"card":{"cvc":null},"hasToken":true}'],
    ['{"password":nullable}', '{"password":[redacted]}'],
    ['{"tokens":["x",["y"]],"user":"ada"}', '{"tokens":[redacted],"user":"ada"}'],
    ['sent Authorization: Bearer x, got 401', 'sent Authorization: [redacted], got 401'],
    ['(token=x) was refused', '(token=[redacted]) was refused'],
    ['Cookie: a=x\r\nHost: db', 'Cookie: [redacted]\r\nHost: db'],
    ['AccountKey=x==;EndpointSuffix=y', 'AccountKey=[redacted];EndpointSuffix=y'],
    ['postgres://app:x/y@db:5432/orders failed', 'postgres://app:[redacted]@db:5432/orders failed'],
  ] as const) {
    expect(withoutSecrets(text)).toBe(expected)
  }
})

test('ordinary messages stay as they are', () => {
  for (const text of [
    'GET http://localhost:3000/users/ada@example.com failed with 404',
    'Cannot find https://registry.example.com/@scope/name',
    'ada@example.com was not found',
    '3 passed, 1 failed',
    'bypass: enabled, compass: north',
    'The signal was lost: design: new',
    'author: Ada, authority: none',
    'The secret is out. A token too!',
    'no such column: passenger_id',
    'company: Acme, japan: 3, frying-pan: 1, panel: left',
    'card: visa, discardNumber: 4, cardNumberLast4: 1234, card_note: gift',
    '"country":"jp","csclass":2',
  ]) {
    expect(withoutSecrets(text)).toBe(text)
  }
})

test('a secret that is cut off by the end of what is looked at is left out', () => {
  for (let at = 3950; at <= 4005; at++) {
    const start = `password=${'x'.repeat(3500)} `
    const text = `${start}${'a '.repeat((at - start.length) / 2)}postgres://app:${secret}@db ${'b'.repeat(5000)}`
    expect(redact(text)).not.toContain('S3c')
  }
})

test('names of secrets', () => {
  const secrets = ['password', 'userPassword', 'DB_PASS', 'pass', 'sig', 'X-Amz-Signature', 'AccountKey', 'api.key']
  secrets.push('cvc', 'CVV', 'cvv2', 'cardCvc', 'csc', 'card_csc', 'pan', 'PAN', 'cardNumber', 'card-number', 'card_no')
  for (const name of secrets) expect([name, isSecretKey(name)]).toEqual([name, true])
  const others = ['passed', 'bypass', 'signal', 'design', 'author', 'key', 'id', 'pass_count', 'compass']
  others.push('card', 'cardType', 'cardNumberLast4', 'discardNumber', 'company', 'timespan', 'pan_angle', 'cscript')
  for (const name of others) expect([name, isSecretKey(name)]).toEqual([name, false])
})

test('a context hides values that are named beside them', () => {
  expect(
    redactContext({
      passwords: ['a', 'b'],
      DB_PASS: 'x',
      headers: [
        { name: 'Authorization', value: secret },
        { key: 'X-Api-Key', value: secret },
        { name: 'Host', value: 'x' },
      ],
      rawHeaders: ['Cookie', secret, 'Host', 'x'],
      entries: [['token', secret]],
    }),
  ).toEqual({
    passwords: '[redacted]',
    DB_PASS: '[redacted]',
    headers: [
      { name: 'Authorization', value: '[redacted]' },
      { key: 'X-Api-Key', value: '[redacted]' },
      { name: 'Host', value: 'x' },
    ],
    rawHeaders: ['Cookie', '[redacted]', 'Host', 'x'],
    entries: [['token', '[redacted]']],
  })
})

test('reads even a very long text once: quadratic work would not end', () => {
  for (const piece of ['://', '://a:', '://a:80/', 'token=a ']) {
    const text = piece.repeat(1_000_000)
    expect(withoutSecrets(`${text} ://u:pw@h`)).toMatch(/:\/\/u:\[redacted\]@h$/)
  }
})

test.each(['api%20key=k-12345', 'api+key=k-12345', 'x?session%20id=k-12345'])('knows a name in a query: %s', text => {
  expect(withoutSecrets(text)).not.toContain('k-12345')
})

test('takes no longer for texts made to be slow', () => {
  const pieces = [
    '://a:',
    'a@',
    '-',
    '--',
    '--a',
    'token=[',
    'token={"',
    "token=['",
    'token=\\',
    'pass',
    'pass>',
    'key ',
  ]
  for (const piece of [...pieces, 'authorization: ', 'cookie"', '-----BEGIN PRIVATE KEY-----', 'token","', 'secret.']) {
    const text = piece.repeat(20_000 / piece.length)
    expect(
      cpuTime(() => withoutSecrets(text)),
      JSON.stringify(piece),
    ).toBeLessThan(1000)
  }
})
