import { OptionError } from '../policy/index.js'
import type { ClaimRequest, Room } from './store.js'

/** The one room of a claim. Serving several is not built yet. */
export function oneRoom({ rooms, limit }: ClaimRequest): Room {
  const [room, ...more] = rooms
  if (room === undefined) return { kinds: [] }
  if (more.length === 0 && (room.limit ?? limit) >= limit) return room
  throw new OptionError('rooms', `'rooms' must be one room without a limit of its own, got ${rooms.length}.`)
}
