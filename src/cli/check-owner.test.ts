import { chmodSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { storeFolder } from '../../test/store-folder.js'
import { problemOf } from './check-owner.js'

const [ROOT, ME, OTHER] = [0, 1000, 1001]
const own = { uid: ME, mode: 0o100644 }
const others = { uid: OTHER, mode: 0o100644 }
const home = { uid: ME, mode: 0o40755 }
const tmp = { uid: ROOT, mode: 0o41777 }
const open = { uid: ROOT, mode: 0o40777 }

describe('a configuration that is found by itself', () => {
  it.each([
    ['one of mine', own, [home], ME, undefined],
    ['one of mine that my group can write to', { uid: ME, mode: 0o100664 }, [home], ME, undefined],
    ['one of mine in /tmp', own, [tmp], ME, undefined],
    ['one of root', { uid: ROOT, mode: 0o100644 }, [home], ME, undefined],
    ['one of a mounted project, as root in a container', others, [home], ROOT, undefined],
    ['one of another user', others, [home], ME, 'it belongs to another user'],
    ['one of another user in /tmp', others, [tmp], ME, 'it belongs to another user'],
    ['one of another user below /tmp, as root', others, [home, tmp], ROOT, 'it belongs to another user'],
    ['one that all can write to', { uid: ME, mode: 0o100646 }, [home], ME, 'every user can write to it'],
    ['one that all can replace', own, [open], ME, 'every user can replace it in its folder'],
  ])('%s', (_, file, folders, uid, problem) => {
    expect(problemOf(file, folders, uid)).toBe(problem)
  })

  it('is not run if every user can write to it', async () => {
    const project = storeFolder()
    const file = join(project.path, 'redrive.config.mjs')
    writeFileSync(join(project.path, 'package.json'), '{}')
    writeFileSync(file, 'throw new Error("it ran")')
    chmodSync(file, 0o666)
    const { code, err } = await project.redrive(['stats'])
    expect(code).toBe(1)
    expect(err).toContain('is not run: every user can write to it.')
    project.remove()
  })
})
