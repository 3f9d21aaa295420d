import { once } from 'node:events'
import { connect } from 'node:net'
import amqplib from 'amqplib'

/** Publishes to NATS what its client would refuse to send: a block of headers as it stands. Resolves once it is there. */
export async function publishToNats(url: string, subject: string, headers: string | Buffer, body: string) {
  const { hostname, port } = new URL(url)
  const socket = connect(Number(port), hostname)
  const block = Buffer.concat([Buffer.from('NATS/1.0\r\n'), Buffer.from(headers), Buffer.from('\r\n\r\n')])
  const content = Buffer.concat([block, Buffer.from(body)])
  socket.write('CONNECT {"headers":true,"verbose":false}\r\n')
  socket.write(`HPUB ${subject} ${block.length} ${content.length}\r\n`)
  socket.write(content)
  socket.write('\r\nPING\r\n')
  for (let answer = ''; !answer.includes('PONG'); ) answer += await once(socket, 'data')
  socket.destroy()
}

/** Publishes to RabbitMQ what its client would refuse to send: a table of headers as it stands. */
export async function publishToRabbitmq(url: string, exchange: string, key: string, headers: Buffer, body: string) {
  const connection = await amqplib.connect(url)
  const channel = await connection.createChannel()
  const socket: unknown = Reflect.get(connection.connection, 'stream')
  const number = Number(Reflect.get(channel, 'ch'))
  const content = Buffer.from(body)
  const method = [Buffer.of(0, 60, 0, 40, 0, 0), shortText(exchange), shortText(key), Buffer.of(0)]
  const size = Buffer.alloc(8)
  size.writeBigUInt64BE(BigInt(content.length))
  // The flags say that there are headers and an id.
  const properties = [Buffer.of(0, 60, 0, 0), size, Buffer.of(0x20, 0x80), uint32(headers.length), headers]
  const frames = [
    frame(1, number, Buffer.concat(method)),
    frame(2, number, Buffer.concat([...properties, shortText('odd')])),
    frame(3, number, content),
  ]
  if (socket instanceof Object && 'write' in socket && typeof socket.write === 'function')
    socket.write(Buffer.concat(frames))
  // The broker handles what comes on a channel in order.
  await channel.checkExchange(exchange)
  await connection.close()
}

/** A table of headers within a table, and so on. */
export function nestedTable(depth: number): Buffer {
  const entry = (length: number) => Buffer.concat([shortText('a'), Buffer.from('F'), uint32(length)])
  const bytes = entry(0).length
  return Buffer.concat(Array.from({ length: depth }, (_, level) => entry(bytes * (depth - 1 - level))))
}

/** An entry of a table of headers: its type, as a letter, and its bytes. */
export function tableEntry(name: string, type: string, value: Buffer): Buffer {
  return Buffer.concat([shortText(name), Buffer.from(type), value])
}

/** A text with its length before it, as the tables of AMQP have them. */
export function longText(bytes: Buffer): Buffer {
  return Buffer.concat([uint32(bytes.length), bytes])
}

function frame(type: number, channel: number, payload: Buffer): Buffer {
  return Buffer.concat([Buffer.of(type, channel >> 8, channel & 255), uint32(payload.length), payload, Buffer.of(0xce)])
}

function shortText(text: string): Buffer {
  return Buffer.concat([Buffer.of(Buffer.byteLength(text)), Buffer.from(text)])
}

function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32BE(value)
  return bytes
}
