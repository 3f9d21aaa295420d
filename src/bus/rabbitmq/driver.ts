import type amqplib from 'amqplib'
import { MissingPackageError } from '../../policy/index.js'

/** Loads amqplib on first use, so that it need not be installed by those who do not use RabbitMQ. */
export async function loadDriver(): Promise<typeof amqplib> {
  try {
    return (await import('amqplib')).default
  } catch (error) {
    throw new MissingPackageError('The RabbitMQ bus', 'amqplib', '^2.3', { cause: error })
  }
}

/** Returns why RabbitMQ closed a channel: its code, such as 404, and its text. */
export function closeReason(error: unknown): { readonly code: number; readonly text: string } {
  const isError = error instanceof Error
  return {
    code: isError && 'code' in error && typeof error.code === 'number' ? error.code : 0,
    text: isError ? error.message : String(error),
  }
}

/** The queue or exchange does not exist. */
export const NOT_FOUND = 404
/** The queue or exchange has other properties; or a message is too large. */
export const PRECONDITION_FAILED = 406
