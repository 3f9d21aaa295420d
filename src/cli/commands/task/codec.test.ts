import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { runCommand } from '../../../../test/command.js'
import { FinalError } from '../../../policy/index.js'
import { openSqlite, type SqliteStore } from '../../../store/sqlite/internal.js'
import { defineTask, encrypted, TaskQueue, Worker } from '../../../task/index.js'

const KEY = 'ab'.repeat(32)
const OTHER = 'cd'.repeat(32)
const TASKS = pathToFileURL(resolve(import.meta.dirname, '../../../task/index.ts')).href

let folder: string
let store: SqliteStore
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'redrive-cli-'))
  store = await openSqlite(join(folder, 'redrive.db'))
  write('tasks.ts', 'k1', KEY)
  write('other-key.ts', 'k1', OTHER)
  write('no-key.ts', 'k2', KEY)
})
afterEach(async () => {
  await store.close()
  rmSync(folder, { recursive: true })
})

/** The module of a project that has this key. */
function write(name: string, id: string, key: string): void {
  writeFileSync(
    join(folder, name),
    `import { defineTask, encrypted } from '${TASKS}'
export const charge = defineTask('charge', {
  codec: encrypted({ keys: { '${id}': '${key}' }, current: '${id}' }),
  handler: async (order: { card: string }) => order,
})`,
  )
}

const charge = defineTask('charge', {
  codec: encrypted({ keys: { k1: KEY }, current: 'k1' }),
  handler: ({ card }: { card: string }) => {
    if (card === '4242') throw new FinalError(`the card ${card} was refused`, { code: 'card_refused' })
    return `paid with ${card}`
  },
})

function redrive(...argv: readonly string[]) {
  return runCommand([...argv, '--store', `sqlite:${join(folder, 'redrive.db')}`], { cwd: folder })
}

async function work(): Promise<void> {
  await new Worker(store, { tasks: [charge], name: 'w1' }).drain()
}

async function dead(...ids: readonly string[]): Promise<void> {
  await new TaskQueue(store).enqueueMany(
    charge,
    ids.map(id => ({ id, payload: { card: '4242' } })),
  )
  await work()
}

it('shows a dead letter of an encrypted kind with its key, and says what is missing without it', async () => {
  await dead('a')
  for (const noun of ['dlq', 'task']) {
    const hidden = await redrive(noun, 'show', 'a')
    expect(hidden.out).toContain("The kind 'charge' is encoded, and there is no codec for it here.")
    expect(hidden.out).toMatch(/Pass --tasks with the\s+module/)
    expect(hidden.out).toContain('FinalError: (encoded)')
    const shown = await redrive(noun, 'show', 'a', '--tasks', 'tasks.ts')
    expect(shown.out).toContain('{"card":')
    expect(shown.out).toContain('FinalError: the card 4242 was refused')
    expect(shown.out).not.toContain('encoded')
    const wrong = await redrive(noun, 'show', 'a', '--tasks', 'other-key.ts')
    expect(wrong.out).toMatch(/another key that had the\s+id\s+'k1'/)
    const gone = await redrive(noun, 'show', 'a', '--tasks', 'no-key.ts', '--output', 'json')
    expect(JSON.parse(gone.out)).toMatchObject({
      unreadable: expect.stringContaining("it was encrypted with the key 'k1', and there are only: 'k2'"),
      payload: expect.stringContaining('~redrive1 '),
    })
    for (const { out } of [hidden, wrong, gone]) expect(out).not.toContain('4242')
  }
})

it('finds the tasks in the configuration of the project', async () => {
  await dead('a')
  writeFileSync(join(folder, 'package.json'), '{}')
  writeFileSync(join(folder, 'redrive.config.ts'), "export default { tasks: './tasks.ts' }")
  expect((await redrive('dlq', 'show', 'a')).out).toContain('the card 4242 was refused')
})

it('exports dead letters decoded, or as they are', async () => {
  await dead('a', 'b')
  const hidden = await redrive('dlq', 'export', '--history')
  expect(hidden.err).toContain('2 of them are encoded, and were written as they are. Pass --tasks')
  expect(hidden.out).not.toContain('4242')
  const shown = await redrive('dlq', 'export', '--history', '--tasks', 'tasks.ts')
  expect(shown.err).not.toContain('encoded')
  const letters = shown.out
    .trim()
    .split('\n')
    .map(line => JSON.parse(line))
  expect(letters).toMatchObject([{ payload: { card: '4242' } }, { payload: { card: '4242' } }])
  expect(letters[0].history[0].error).toBe('FinalError: the card 4242 was refused')
})

it('lists them with the names of their failures alone', async () => {
  await dead('a')
  for (const list of [
    ['dlq', 'ls'],
    ['task', 'ls'],
    ['groups', 'ls'],
    ['why', 'a'],
  ]) {
    const { out } = await redrive(...list)
    expect(out).toContain('FinalError: (encoded)')
    expect(out).not.toMatch(/4242|~redrive1/)
  }
})

it('edits a payload with its key, encoded again, and refuses to without', async () => {
  await dead('a')
  const payload = '{"card":"4343"}'
  const refused = await redrive('task', 'edit', 'a', '--payload', payload)
  expect(refused.code).not.toBe(0)
  expect(refused.err).toContain('the present one is encoded, and there is no codec for the new one here')
  expect((await redrive('dlq', 'edit', 'a', '--payload', payload, '--tasks', 'tasks.ts')).code).toBe(0)
  expect((await store.get('a'))?.payload).toMatch(/^~redrive1 /)
  await work()
  expect(await new TaskQueue(store).result('a', { task: charge })).toBe('paid with 4343')
})

it('patches payloads with their key, and leaves them alone without', async () => {
  await dead('a', 'b')
  const patch = ['dlq', 'edit', '--kind', 'charge', '--patch', '{"card":"4343"}', '--yes']
  const refused = await redrive(...patch)
  expect(refused.code).not.toBe(0)
  const dry = await redrive(...patch, '--dry-run')
  expect(`${dry.out}${dry.err}`).toContain('it is encoded, and there is no codec for it here')
  expect((await store.get('a'))?.status).toBe('dead')
  const moved = await redrive(...patch, '--tasks', 'tasks.ts')
  expect([moved.code, moved.err]).toEqual([0, expect.stringContaining('2 moved')])
  await work()
  for (const id of ['a', 'b']) expect(await new TaskQueue(store).result(id, { task: charge })).toBe('paid with 4343')
})

it('says that encoded payloads cannot be searched', async () => {
  await dead('a')
  for (const flags of [['--kind', 'charge'], []]) {
    const { code, err } = await redrive('dlq', 'ls', ...flags, '--where', 'payload.card=4242')
    expect([code, err]).toEqual([2, expect.stringContaining("--where cannot search the payloads of the kind 'charge'")])
  }
})
