import type amqplib from 'amqplib'
import { MissingPackageError } from '../../policy/index.js'

/** Loads amqplib when it is needed: who opens no RabbitMQ need not have it. */
export async function loadDriver(): Promise<typeof amqplib> {
  try {
    return (await import('amqplib')).default
  } catch (error) {
    throw new MissingPackageError('The RabbitMQ bus', 'amqplib', '^2.3', { cause: error })
  }
}

/** What of an error RabbitMQ closed a channel with: its code, such as 404, and its words. */
export function closeReason(error: unknown): { readonly code: number; readonly text: string } {
  const isError = error instanceof Error
  return {
    code: isError && 'code' in error && typeof error.code === 'number' ? error.code : 0,
    text: isError ? error.message : String(error),
  }
}

/** There is no such queue or exchange. */
export const NOT_FOUND = 404
/** What is there has other properties; or a message is too large. */
export const PRECONDITION_FAILED = 406
