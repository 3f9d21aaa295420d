import { open } from 'node:fs/promises'
import { dirname } from 'node:path'

/** A new name is on disk once its folder is. */
export async function syncFolder(path: string): Promise<void> {
  const folder = await open(dirname(path), 'r')
  try {
    await folder.sync()
  } finally {
    await folder.close()
  }
}
