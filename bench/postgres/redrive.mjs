import { openPostgres } from '../../dist/store/postgres/index.js'

export { drain, enqueue, enqueueConcurrently, enqueueInChunks, enqueueOneByOne } from '../tasks/redrive.mjs'
export const open = url => openPostgres(url)
