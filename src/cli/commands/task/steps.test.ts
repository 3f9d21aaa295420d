import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { runCommand } from '../../../../test/command.js'
import { FinalError } from '../../../policy/index.js'
import { openSqlite, type SqliteStore } from '../../../store/sqlite/internal.js'
import { defineTask, TaskQueue, Worker } from '../../../task/index.js'

let folder: string
let store: SqliteStore
/** The steps that have run, in their order. */
let ran: string[]
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'redrive-cli-'))
  store = await openSqlite(join(folder, 'redrive.db'))
  ran = []
})
afterEach(async () => {
  await store.close()
  rmSync(folder, { recursive: true })
})

const signup = defineTask('signup', {
  handler: async ({ card }: { card: string }, task) => {
    const run = <T>(name: string, work: () => T) => {
      return task.step(name, () => {
        ran.push(name)
        return work()
      })
    }
    const user = await task.step('create', () => {
      ran.push('create')
      return { id: 7 }
    })
    const charge = await run('charge', () => `ch_${card}`)
    await run('mail', () => {
      if (card !== 'good') throw new FinalError('mailbox is full', { code: 'mailbox_full' })
    })
    return `${user.id} ${charge}`
  },
})
const slow = defineTask('slow', {
  handler: async (_: null, task) => {
    await task.step('call', () => Promise.reject(new Error('down')), { policy: { backoff: ['10m'], jitter: 'none' } })
  },
})

function redrive(...argv: readonly string[]) {
  return runCommand([...argv, '--store', `sqlite:${join(folder, 'redrive.db')}`], { cwd: folder })
}

async function work(): Promise<void> {
  await new Worker(store, { tasks: [signup, slow], name: 'w1' }).drain()
}

async function dead(...ids: readonly string[]): Promise<void> {
  const queue = new TaskQueue(store)
  for (const id of ids) await queue.enqueue(signup, { card: 'bad' }, { id })
  await work()
  ran = []
}

it('shows the steps of a dead letter, and names the one that it died of', async () => {
  await dead('signup-7')
  const shown = await redrive('dlq', 'show', 'signup-7')
  expect(shown.out).toContain("FinalError: step 'mail': mailbox is full")
  expect(shown.out).toMatch(/^STEP +STATE +FAILED +LAST ATTEMPT +RESULT$/m)
  expect(shown.out).toMatch(/^create +done +0 .+ \{"id":7\}$/m)
  expect(shown.out).toMatch(/^charge +done +0 .+ "ch_bad"$/m)
  expect(shown.out).toMatch(/^mail +given up +1 /m)
  const { steps, cause, history } = (await redrive('task', 'show', 'signup-7', '--output', 'json')).json()
  expect(steps).toMatchObject([
    {
      name: 'create',
      status: 'done',
      result: { id: 7 },
      history: [{ attempt: 1, outcome: 'succeeded', worker: 'w1' }],
    },
    { name: 'charge', status: 'done' },
    {
      name: 'mail',
      status: 'given_up',
      reason: 'final_error',
      attempts: 1,
      history: [{ error: 'FinalError: mailbox is full' }],
    },
  ])
  expect(cause).toEqual({
    code: 'final_error',
    text: "Its step 'mail' was given up. Its error is final: another attempt would fail the same way.",
  })
  expect(history).toMatchObject([{ outcome: 'dead', step: 'mail' }])
  const why = (await redrive('why', 'signup-7', '--output', 'json')).json()
  expect(why.answer).toBe(`It is dead. ${cause.text}`)
  expect(why.causes[0].facts).toMatchObject({ step: 'mail', stepAttempts: 1, maxAttempts: 8 })
  expect(why.causes.map(({ code }: { code: string }) => code)).toContain('decision_confirmed')
  const groups = (await redrive('groups', 'ls', '--output', 'json')).json()
  expect(groups).toMatchObject([{ pattern: "step 'mail': mailbox is full", code: 'mailbox_full' }])
})

it('says why a task waits for a step, and recomputes the decisions on its steps', async () => {
  await new TaskQueue(store).enqueue(slow, null, { id: 't' })
  await dead('signup-7')
  const why = (await redrive('why', 't', '--output', 'json')).json()
  expect(why.causes[0]).toMatchObject({ code: 'step_not_due', facts: { step: 'call', errorCode: 'unknown' } })
  expect(why.answer).toMatch(
    /^It is not due until .+: its step 'call' failed at .+ \(.*step 'call': down\), and its policy asked to wait 10m\.$/,
  )
  const verified = (await redrive('audit', 'verify', '--output', 'json')).json()
  expect(verified).toMatchObject({ decisions: 2, discrepancies: [], problems: [], unknown: 0 })
})

it('redrives behind the last step on record, from a step, and without one', async () => {
  await dead('a', 'b', 'c')
  const flags = ['--yes', '--patch', '{"card":"good"}']
  expect((await redrive('dlq', 'edit', 'a', ...flags)).code).toBe(0)
  await work()
  expect(ran).toEqual(['mail'])
  expect((await store.get('a'))?.result).toBe('"7 ch_bad"')
  ran = []
  expect((await redrive('dlq', 'edit', 'b', ...flags, '--from-step', 'charge')).code).toBe(0)
  await work()
  expect(ran).toEqual(['charge', 'mail'])
  expect((await store.get('b'))?.result).toBe('"7 ch_good"')
  ran = []
  expect((await redrive('dlq', 'redrive', 'c', '--yes', '--forget-step', 'create', '--why', 'no such user')).code).toBe(
    0,
  )
  const forgotten = (await redrive('task', 'show', 'c', '--output', 'json')).json()
  expect(forgotten.steps[0]).toMatchObject({ name: 'create', status: 'forgotten', result: null })
  await work()
  expect(ran).toEqual(['create', 'mail'])
  const again = (await redrive('task', 'show', 'c', '--output', 'json')).json()
  expect(again.steps[0].history).toMatchObject([{ outcome: 'succeeded' }, { outcome: 'succeeded' }])
  const audit = (await redrive('audit', 'tail', '--output', 'json')).json()
  expect(audit).toContainEqual(
    expect.objectContaining({
      event_type: 'operation_created',
      why: 'no such user',
      settings: expect.objectContaining({ forgetStep: 'create' }),
    }),
  )
})

it('refuses a step that none of the letters has, before it does anything, and two flags for steps', async () => {
  await dead('a')
  const unknown = await redrive('dlq', 'redrive', 'a', '--yes', '--from-step', 'chrage')
  expect(unknown.code).not.toBe(0)
  expect(unknown.err).toContain(
    "None of these dead letters has a step 'chrage'. Their steps on record: 'create', 'charge', 'mail'.",
  )
  expect(unknown.err).not.toContain('again')
  for (const which of [['a'], ['--kind', 'signup']])
    for (const how of [['--dry-run'], ['--yes'], ['--yes', '--detach']])
      expect((await redrive('dlq', 'redrive', ...which, ...how, '--forget-step', 'chrage')).code).toBe(2)
  expect((await store.get('a'))?.status).toBe('dead')
  const both = await redrive('dlq', 'redrive', 'a', '--from-step', 'charge', '--forget-step', 'mail')
  expect(both.code).toBe(2)
})
