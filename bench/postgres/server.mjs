import { tsImport } from 'tsx/esm/api'

const { startPostgres } = await tsImport('../../test/services/postgres.ts', import.meta.url)
// The loader turns source maps on for the whole process, and every stack of a failing task would be looked up in them.
process.setSourceMapsEnabled(false)

/** A PostgreSQL of our own with the server's defaults, fsync included, for as long as `use` takes. */
export async function withServer(use) {
  const server = await startPostgres()
  try {
    return await use(server)
  } finally {
    await server.close()
  }
}
