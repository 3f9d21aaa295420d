import { shownText } from '../codec/internal.js'
import { explain, formatDuration, type Policy } from '../policy/index.js'
import { commandArgs, commandLine } from '../policy/internal.js'
import type { LedgerRow, TaskRecord } from '../store/index.js'
import { FAILED_BY_HAND, isItem, type StepRecord, stepRecord, type TaskStanding } from '../store/internal.js'
import { adviceFor, causeOf, fatalStep } from './cause.js'
import { stepDecisions } from './step-decisions.js'
import { isoOrNull } from './task-view.js'
import { policyOf } from './unattended.js'
import { recompute, withHistory } from './verify.js'
import type { Because, WhyAction, WhyCause, WhyStore } from './why-cause.js'
import { byText, failureWords, timeText } from './why-text.js'

/** Why a task runs: who has it, since when, and until when. */
export async function whyRunning(store: WhyStore, standing: TaskStanding): Promise<Because> {
  const { task, worker, isToBeCancelled, now } = standing
  const live = (await store.workers()).find(({ name }) => name === worker?.name)
  const release = live?.release === undefined ? '' : ` (release ${live.release})`
  const host = live?.host === undefined ? '' : ` on ${live.host}`
  const name = worker === undefined ? 'A worker' : `The worker '${worker.name}'${host}${release}`
  const facts = {
    worker: worker?.name ?? null,
    host: live?.host ?? null,
    release: live?.release ?? null,
    since: isoOrNull(task.changedAt),
    leaseUntil: isoOrNull(worker?.until),
    attempt: task.attempts + 1,
  }
  const since = `since ${timeText(task.changedAt)} (${formatDuration(Math.max(0, now - task.changedAt))})`
  const runs = { code: 'running', text: `${name} has been running attempt ${task.attempts + 1} of it ${since}.`, facts }
  const isGone = worker?.until !== undefined && worker.until <= now
  const gone = {
    code: 'worker_gone',
    text: 'Its worker has sent no heartbeat for a whole lease. The next heartbeat of another worker takes the task back, which costs it a loss and no attempt.',
    facts: { leaseUntil: isoOrNull(worker?.until) },
  }
  const isOverrun = live?.overruns?.includes(task.id) === true
  const cancelling = isToBeCancelled ? [cancelRequested(await store.ledger(task.id), isOverrun)] : []
  return {
    causes: [...(isGone ? [gone] : []), ...(isOverrun && !isToBeCancelled ? [OVERRUN] : []), runs, ...cancelling],
    actions:
      isToBeCancelled || isGone
        ? []
        : [{ text: 'If its handler hangs, cancel it.', args: commandArgs('task cancel', {}, task.id) }],
  }
}

const KEEPS_SLOT =
  'Its handler has not obeyed its signal, and keeps its slot and its turn until it ends: for a minute at most, or for its timeout if that is shorter.'

const OVERRUN: WhyCause = {
  code: 'timed_out_still_running',
  text: `Its attempt has timed out, and is still running. ${KEEPS_SLOT}`,
  facts: {},
}

function cancelRequested(ledger: readonly LedgerRow[], isOverrun: boolean): WhyCause {
  const { text, facts } = requestOf(ledger) ?? { text: 'A cancellation was requested.', facts: {} }
  const rest = isOverrun
    ? `It is cancelled, and still running. ${KEEPS_SLOT}`
    : 'Its signal is aborted, and it ends when its handler does.'
  return { code: 'cancel_requested', text: `${text} ${rest}`, facts }
}

/** Who asked to cancel a task while it was running, as far as it is on record. */
function requestOf(ledger: readonly LedgerRow[]): Omit<WhyCause, 'code'> | undefined {
  const fresh = ledger.findLastIndex(({ outcome }) => outcome === 'redriven')
  const row = ledger.slice(fresh + 1).findLast(({ outcome }) => outcome === 'cancel_requested')
  if (row === undefined) return undefined
  const { worker: who, reason: why, endedAt } = row
  const by = byText({ who, why }, undefined)
  const text = `A cancellation was requested at ${timeText(endedAt)}${by}.`
  return { text, facts: { who, why: why ?? null, requestedAt: isoOrNull(endedAt) } }
}

/** Why a task has ended as it has. */
export async function whyEnded(store: WhyStore, { task, twin }: TaskStanding): Promise<Because> {
  const ledger = await store.ledger(task.id)
  const last = ledger.at(-1)
  switch (task.status) {
    case 'dead':
      return withTwin(
        task.reason === FAILED_BY_HAND ? whyFailed(task, ledger) : await whyDead(store, task, ledger),
        task,
        twin,
      )
    case 'cancelled':
      return { causes: [await cancelled(store, task, ledger)], actions: [] }
    case 'skipped':
      return {
        causes: [{ code: 'skipped', text: `Its handler skipped it: ${task.reason}.`, facts: attemptFacts(last) }],
        actions: [],
      }
    default: {
      if (last?.outcome === 'completed') return { causes: [byHand('completed', 'It was completed', last)], actions: [] }
      const attempt = last === undefined ? '' : ` with attempt ${last.attempt}`
      const text = `It succeeded${attempt} at ${timeText(task.changedAt)}.`
      return { causes: [{ code: 'succeeded', text, facts: attemptFacts(last) }], actions: [] }
    }
  }
}

async function whyDead(store: WhyStore, task: TaskRecord, ledger: readonly LedgerRow[]): Promise<Because> {
  const steps = (await store.steps(task.id)).map(stepRecord)
  const step = fatalStep(ledger, steps)
  const { code, text } = causeOf(task, step)
  const died = [...withHistory(task, ledger)].findLast(({ row }) => row.outcome === 'dead' || row.outcome === 'lost')
  // The step decided, from its own history.
  const fatal = died?.row.notes?.step === undefined ? died : step && died && decidedBy(step, died.row)
  const policy = await policyOf(store, died?.row.policy)
  const advice = adviceFor(task, ledger.findLast(({ outcome }) => outcome === 'dead')?.stack)
  const facts = {
    ...attemptFacts(died?.row),
    attempts: task.attempts,
    maxAttempts: policy?.attempts ?? null,
    deferrals: task.deferrals,
    losses: task.losses,
    startedAt: isoOrNull(died?.history.startedAt),
    ttlMs: policy?.ttl ?? null,
    errorCode: task.errorCode ?? null,
    errorClass: task.errorClass ?? null,
    policy: died?.row.policy ?? null,
    ...(step !== undefined && { step: step.name, stepAttempts: step.attempts }),
  }
  const death = { code, text: `It is dead. ${text}`, facts }
  const error = { code: 'last_error', text: `${lastErrorText(task)}${whereText(died?.row)}`, facts: {} }
  const redrive = { text: advice.text, args: commandArgs('dlq redrive', {}, task.id) }
  const causes = [death, error, ...decisionCauses(policy, fatal)]
  return { causes, actions: [redrive, ...(await redriveGroup(store, task))] }
}

/** A dead letter that a person has made, and how its last attempt had gone, if it made one. */
function whyFailed(task: TaskRecord, ledger: readonly LedgerRow[]): Because {
  const act = ledger.findLast(({ outcome }) => outcome === 'failed')
  const { code, text } = causeOf(task)
  const last = ledger.findLast(({ error }) => error !== undefined)
  const before = `The last error of an attempt: ${last?.error === undefined ? '' : shownText(last.error)}${whereText(last)}`
  return {
    causes: [
      act === undefined
        ? { code, text: `It is dead. ${text}`, facts: {} }
        : byHand(code, 'It is dead. It was failed', act),
      ...(last === undefined ? [] : [{ code: 'last_error', text: before, facts: attemptFacts(last) }]),
    ],
    actions: [{ text: adviceFor(task, undefined).text, args: commandArgs('dlq redrive', {}, task.id) }],
  }
}

/** Who has ended a task by hand, and why. */
function byHand(code: string, act: string, { worker: who, reason: why, endedAt }: LedgerRow): WhyCause {
  const text = `${act} by hand at ${timeText(endedAt)}${byText({ who, why }, undefined)}.`
  return { code, text, facts: { who, why: why ?? null, at: isoOrNull(endedAt) } }
}

/** The attempt at a step that a task died of, with the history before it; `undefined` if that is not on record as a whole. */
function decidedBy(step: StepRecord, row: LedgerRow) {
  const last = stepDecisions(step).at(-1)
  return last?.entry.outcome !== 'gave_up'
    ? undefined
    : { row: { ...row, endedAt: last.entry.endedAt }, history: last.history }
}

function lastErrorText(task: TaskRecord): string {
  const words = failureWords(task)
  return words === '' ? 'Its last error is not on record.' : `Its last error: ${words}`
}

/** The worker and the release of the attempt that failed: a bad one shows here. */
function whereText(row: LedgerRow | undefined): string {
  if (row === undefined) return ''
  return ` (on ${row.worker}${row.release === undefined ? '' : `, release ${row.release}`})`
}

/** Redrives the whole group, if others died in the same way. Items are reprocessed by their run. */
async function redriveGroup(store: WhyStore, task: TaskRecord): Promise<WhyAction[]> {
  const { group } = task
  if (group === undefined || isItem(task)) return []
  const { dead } = await store.count({ status: 'dead', group })
  if (dead < 2) return []
  return [
    {
      text: `Redrive all ${dead} dead letters that failed in the same way.`,
      args: commandArgs('dlq redrive', { '--group': group }),
    },
  ]
}

/** The rule that ended it, and whether the kernel decides the same from what is on record. */
function decisionCauses(
  policy: Policy | undefined,
  fatal: { readonly row: LedgerRow; readonly history: Parameters<typeof recompute>[1] } | undefined,
): WhyCause[] {
  if (fatal === undefined) return []
  const { row, history } = fatal
  if (policy === undefined || row.verdict === undefined || row.random === undefined) {
    const text = 'The decision cannot be recomputed: its policy is not on record.'
    return [{ code: 'decision_unknown', text, facts: {} }]
  }
  const again = recompute(policy, history, row, row.verdict, row.random)
  const isSame = again.action === 'give_up' && again.reason === row.reason
  const rule = `Its policy: ${explain(policy).words.split('\n')[0]}`
  const result = isSame
    ? 'Recomputed from the ledger, the decision is the same.'
    : `Recomputed from the ledger, the decision differs. To check all of them, run: ${commandLine('audit verify')}`
  const facts = { isSame, verdict: row.verdict.class, code: row.verdict.code, random: row.random }
  return [
    { code: 'policy', text: rule, facts: {} },
    { code: isSame ? 'decision_confirmed' : 'decision_differs', text: result, facts },
  ]
}

async function cancelled(store: WhyStore, task: TaskRecord, ledger: readonly LedgerRow[]): Promise<WhyCause> {
  const last = ledger.at(-1)
  const at = isoOrNull(task.changedAt)
  const when = timeText(task.changedAt)
  if (last?.attempt === 0 && (last.outcome === 'cancelled' || last.outcome === 'discarded')) {
    const { outcome: code, worker: who, reason: why } = last
    const by = byText({ who, why }, undefined)
    const act = code === 'discarded' ? 'It was a dead letter, and was discarded' : 'It was cancelled'
    return { code, text: `${act} at ${when}${by}.`, facts: { who, why: why ?? null, at } }
  }
  const request = requestOf(ledger)
  const run = isItem(task) && request === undefined ? await store.runs.get(task.key) : undefined
  if (run?.status === 'cancelled') {
    return {
      code: 'cancelled',
      text: `Its run '${run.id}' was cancelled, and it ended at ${when}.`,
      facts: { run: run.id, at },
    }
  }
  const how = last?.outcome === 'cancelled' ? ' while it was running' : ''
  const text = [`It was cancelled at ${when}${how}.`, ...(request ? [request.text] : [])].join(' ')
  return { code: 'cancelled', text, facts: { at, ...request?.facts } }
}

function attemptFacts(row: LedgerRow | undefined): WhyCause['facts'] {
  if (row === undefined) return {}
  const { attempt, endedAt, worker, release } = row
  return { attempt, endedAt: isoOrNull(endedAt), worker, release: release ?? null }
}

/** Says of a dead letter that another task has its unique key by now, which a redrive would meet, and names the redrive that works. */
function withTwin({ causes, actions }: Because, { id, unique }: TaskRecord, twin: string | undefined): Because {
  if (unique?.while !== 'unfinished' || twin === undefined) return { causes, actions }
  const text = `The task '${twin}' has its unique key '${unique.key}' by now, so a redrive leaves it alone unless --twin says otherwise.`
  const cause = { code: 'twin_alive', text, facts: { twin, uniqueKey: unique.key } }
  const plain = commandArgs('dlq redrive', {}, id).join(' ')
  const args = commandArgs('dlq redrive', { '--twin': 'after' }, id)
  const possible = actions.map(action => (action.args?.join(' ') === plain ? { ...action, args } : action))
  return { causes: [...causes, cause], actions: possible }
}
