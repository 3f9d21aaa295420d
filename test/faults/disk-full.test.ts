import { mkdtempSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { Scene } from './scene.js'
import { diceOf } from './seed.js'
import { smallDisk } from './small-disk.js'
import { diskFullFaults } from './suites/disk-full.js'

const dice = diceOf('a disk without room')
const disk = smallDisk(12)
const newFolder = () => mkdtempSync(join(disk.folder, 'scene-'))

diskFullFaults({ disk, dice, openScene: () => Scene.open(newFolder()) })

it.skipIf(!disk.isMounted)('a disk without room takes no new store, and an error says so', async () => {
  disk.fillUp()
  await expect(Scene.open(newFolder())).rejects.toThrow()
  disk.makeRoom()
})
