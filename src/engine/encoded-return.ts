import type { Returned } from '../attempt/index.js'
import type { KindCodec } from '../codec/internal.js'

/** A handler's return value, as a store keeps it for the task with this id. */
export function encodedReturn(returned: Returned, id: string, codec: KindCodec): Returned {
  switch (returned.type) {
    case 'succeeded': {
      const { value, reason } = returned
      // The reason may quote the result.
      if (reason !== undefined && codec.isSecret)
        return { ...returned, reason: 'JSON cannot hold it, or it is too long' }
      return value === undefined ? returned : { ...returned, value: codec.encode(value, 'result', id) }
    }
    case 'advanced':
      return { ...returned, value: codec.encode(returned.value, 'value', id) }
    case 'skipped':
    case 'later':
      return returned
  }
}
