import { setTimeout as sleep } from 'node:timers/promises'
import { apiCode } from './driver.js'

/** The stream already exists with another configuration. */
const STREAM_NAME_IN_USE = 10058
/** Another stream has the subjects. The server also says so of the stream itself while another client creates it. */
const SUBJECTS_OVERLAP = 10065

const MAX_TRIES = 5
const PAUSE_MS = 20

/**
 * Calls a function that opens a stream or creates it if it does not exist. When many processes start at once, another one
 * may create the stream between the two: then the next call opens it.
 */
export async function createTogether<T>(openOrCreate: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries++) {
    try {
      return await openOrCreate()
    } catch (error) {
      const isTaken = [STREAM_NAME_IN_USE, SUBJECTS_OVERLAP].includes(apiCode(error))
      if (!isTaken || tries === MAX_TRIES) throw error
      await sleep(PAUSE_MS * tries)
    }
  }
}
