import { policyWith } from '../engine/internal.js'
import { formatDuration } from '../policy/index.js'
import { commandArgs } from '../policy/internal.js'
import type { BudgetRecord, LedgerRow } from '../store/index.js'
import {
  isItem,
  isRunBy,
  type LaneRules,
  type RunRecord,
  runsAlone,
  type TaskStanding,
  type WorkerRecord,
} from '../store/internal.js'
import { roundedCost } from './cost.js'
import { pauseOf } from './lanes.js'
import { isoOrNull } from './task-view.js'
import { declaredPolicy } from './unattended.js'
import { type Because, MAX_BEFORE, type WhyAction, type WhyCause, type WhyStore } from './why-cause.js'
import { byText, errorText, tasksText, timeText } from './why-text.js'

/** All that the causes of a waiting task depend on. */
interface Situation extends TaskStanding {
  readonly rules: LaneRules
  /** The run that an item belongs to. */
  readonly run: RunRecord | undefined
  /** The budgets that cover it, with their gates. */
  readonly budgets: readonly BudgetRecord[]
  /** The live workers that may run it. */
  readonly able: readonly WorkerRecord[]
  readonly workers: readonly WorkerRecord[]
  /** When its time to live ends, as the last worker that ran it declared it. */
  readonly expiresAt: number | undefined
  /** The last row of its ledger that says something about its time. */
  readonly last: LedgerRow | undefined
  /** The task that holds its lane, if that is another one. */
  readonly holder: FailedTask | undefined
  /** The dead letter at which its lane stops. */
  readonly letter: FailedTask | undefined
}

interface FailedTask {
  readonly errorCode?: string | undefined
  readonly errorMessage?: string | undefined
}

/** More workers are not named one by one. */
const MAX_NAMED = 5

/** Finds one cause, if it applies. */
type Finder = (situation: Situation) => (WhyCause & { readonly action?: WhyAction }) | undefined

/**
 * The causes that keep a waiting task from starting, in the order in which the answers matter: what somebody has to end comes before
 * what ends by itself. A further cause is one more finder in this list.
 */
const FINDERS: readonly Finder[] = [
  pausedRun,
  pausedLane,
  openGate,
  spentBudget,
  blockedLane,
  heldLane,
  heldRetry,
  heldHead,
  queuedBehind,
  notDue,
  noWorker,
  pausedWorkers,
  undecided,
  fullLane,
  slowLane,
  fullSharedLimit,
  slowSharedLimit,
  alone,
  behindOthers,
]

/** Why a task waits. */
export async function whyWaiting(store: WhyStore, standing: TaskStanding): Promise<Because> {
  const situation = await situationOf(store, standing)
  const found = FINDERS.flatMap(find => find(situation) ?? [])
  const causes = found.length > 0 ? found : [next(situation)]
  // More workers help only a task that waits for nothing but the tasks before it.
  const isOnlyBehind = causes.every(({ code }) => code === 'behind_others')
  return {
    causes: causes.map(({ code, text, facts }) => ({ code, text, facts })),
    actions: isOnlyBehind ? [getAhead(situation)] : causes.flatMap(({ action }) => action ?? []),
  }
}

async function situationOf(store: WhyStore, standing: TaskStanding): Promise<Situation> {
  const { task, lane, blockedBy } = standing
  const [rules, workers, budgets, run, ledger, lifetimes, holder, letter] = await Promise.all([
    store.laneRules({ kind: task.kind, category: task.category, key: task.key }),
    store.workers(),
    store.budgets.list(),
    isItem(task) ? store.runs.get(task.key) : undefined,
    store.ledger(task.id),
    store.lifetimes.list(),
    lane.heldBy === undefined || lane.heldBy === task.id ? undefined : store.get(lane.heldBy),
    blockedBy === undefined ? undefined : store.get(blockedBy),
  ])
  const able = workers.filter(worker => isRunBy(worker, task))
  const covering = budgets.filter(
    ({ kind, category }) => kind === task.kind && (category === undefined || category === task.category),
  )
  const declared = await declaredPolicy(store, lifetimes, task)
  const ttl = declared && policyWith(declared, task.policy).ttl
  const expiresAt = ttl === undefined ? undefined : task.startedAt + ttl
  return {
    ...standing,
    rules,
    budgets: covering,
    workers,
    able,
    run,
    expiresAt,
    last: ledger.findLast(isAboutTime),
    holder,
    letter,
  }
}

function isAboutTime({ outcome }: LedgerRow): boolean {
  return outcome !== 'edited' && outcome !== 'prioritized'
}

function pausedRun({ run, rules, lane }: Situation) {
  if (run === undefined || (run.status !== 'paused' && run.status !== 'stopped')) return undefined
  const action = { text: continueText(run), args: commandArgs('pipeline continue', {}, run.id) }
  const { stop } = run
  if (run.status === 'stopped' && stop !== undefined) {
    const commonest =
      stop.cause === undefined ? '' : `, most of them with ${stop.cause.errorCode} in '${stop.cause.stage}'`
    const share = `${Math.round(stop.rate * 100)}%, ${Math.round(stop.budget * 100)}% allowed`
    const text = `Its run '${run.id}' was stopped by its failure budget at ${timeText(stop.at)}: ${stop.dead} of ${stop.processed} items had died (${share})${commonest}.`
    const facts = {
      run: run.id,
      at: isoOrNull(stop.at),
      dead: stop.dead,
      processed: stop.processed,
      budget: stop.budget,
    }
    return { code: 'run_stopped', text, facts, action }
  }
  const rule = pauseOf(lane, rules)
  const facts = { run: run.id, who: rule?.by?.who ?? null, why: rule?.by?.why ?? null, at: isoOrNull(rule?.at) }
  return { code: 'run_paused', text: `Its run '${run.id}' is paused${byText(rule?.by, rule?.at)}.`, facts, action }
}

/** Its source is read by the process that has it, if there is one. */
function continueText({ isRead, status }: RunRecord): string {
  const cause = status === 'stopped' ? 'Fix the cause of the failures, then let' : 'Let'
  const source = isRead ? '' : ' Nothing but `pipeline resume` reads the rest of its source.'
  return `${cause} the live workers go on with the run.${source}`
}

function pausedLane({ lane, rules, run }: Situation) {
  if (!lane.isPaused || run?.status === 'paused' || run?.status === 'stopped') return undefined
  const rule = pauseOf(lane, rules)
  const { kind, category, key } = rule ?? lane
  const args = commandArgs('lane resume', { '--kind': kind, '--category': category, '--key': key })
  return {
    code: 'lane_paused',
    text: `Its lane is paused${byText(rule?.by, rule?.at)}.`,
    facts: { who: rule?.by?.who ?? null, why: rule?.by?.why ?? null, at: isoOrNull(rule?.at) },
    action: { text: 'Resume its lane.', args },
  }
}

function openGate({ budgets }: Situation) {
  const budget = budgets.find(({ gate }) => gate.state !== 'closed')
  if (budget === undefined) return undefined
  const { kind, category, gate } = budget
  const { cause, until, state } = gate
  const figures =
    cause === undefined ? '' : `: ${cause.failed} of ${cause.attempts} attempts failed, most of them with ${cause.code}`
  const text =
    state === 'open'
      ? `The failure budget has stopped '${kind}'${figures}. One task probes at ${timeText(until ?? 0)}; the others follow if it succeeds.`
      : `The failure budget of '${kind}' lets only a few tasks start, to find out whether they succeed again${figures}.`
  const facts = { state, until: isoOrNull(until), errorCode: cause?.code ?? null, failed: cause?.failed ?? null }
  const args = commandArgs('budget close', { '--kind': kind, '--category': category })
  const action = {
    text: 'Fix the cause of the failures. To let all tasks start at once, close the gate; the budget stays.',
    args,
  }
  return { code: state === 'open' ? 'budget_open' : 'budget_half_open', text, facts, action }
}

function spentBudget({ budgets }: Situation) {
  const budget = budgets.find(({ cost }) => cost?.left === 0)
  if (budget?.cost === undefined) return undefined
  const { kind, category, cost } = budget
  const { amounts, used, isSpent, until } = cost
  const figures = Object.entries(amounts)
    .map(([bucket, amount]) => `${roundedCost(used)[bucket] ?? 0} of ${amount} ${bucket}`)
    .join(', ')
  const text = isSpent
    ? `The cost budget of '${kind}' is spent: ${figures}. It starts again at ${timeText(until)}.`
    : `The cost budget of '${kind}' has no room for another task beside those that run: ${figures} so far. They tell what they spend when they end.`
  const args = commandArgs('budget set', { '--kind': kind, '--category': category, '--cost': 'BUCKET=AMOUNT' })
  const action = { text: 'Wait, or raise the budget.', args }
  return { code: 'cost_budget', text, facts: { until: isoOrNull(until), isSpent }, action }
}

function blockedLane({ blockedBy: id, letter }: Situation) {
  if (id === undefined) return undefined
  const text = `Its lane is ordered and stops at the dead letter '${id}'${errorText(letter ?? {})}: the tasks behind it wait until it is redriven or discarded.`
  const action = {
    text: 'Fix the cause, then redrive the letter: it runs first. To go on without it, discard it (`dlq discard`).',
    args: commandArgs('dlq redrive', {}, id),
  }
  return { code: 'lane_blocked', text, facts: { blockedBy: id, errorCode: letter?.errorCode ?? null }, action }
}

function heldLane({ task, lane, holder }: Situation) {
  const { heldUntil, heldBy } = lane
  if (heldUntil === undefined) return undefined
  const isOwn = heldBy === task.id
  const error = isOwn ? task : (holder ?? {})
  const facts = { until: isoOrNull(heldUntil), heldBy: heldBy ?? null, errorCode: error.errorCode ?? null }
  const action =
    heldBy === undefined || isOwn
      ? undefined
      : { text: 'See the task that holds the lane.', args: commandArgs('task show', {}, heldBy) }
  const until = timeText(heldUntil)
  if (lane.limits.isOrdered) {
    const head = isOwn
      ? 'It is the first task of its ordered lane, and waits'
      : `The first task of its ordered lane, '${heldBy}', waits`
    const text = `${head} until ${until} for the next attempt${errorText(error)}.`
    return { code: 'head_waits', text, facts, action }
  }
  const who = isOwn ? 'it' : heldBy === undefined ? 'a task' : `the task '${heldBy}'`
  const text = `Its lane is held until ${until}: a rate limit refused ${who}${errorText(error)}.`
  return { code: 'lane_held', text, facts, action }
}

function heldRetry({ retryBudget: scope, budgets, task, now }: Situation) {
  if (scope === undefined || (task.nextAttemptAt ?? 0) > now) return undefined
  const retries = budgets.find(({ kind, category }) => kind === scope.kind && category === scope.category)?.retries
  if (retries === undefined) return undefined
  const { share, windowMs, floor, dependency, first, retried, held, nextAt } = retries
  const rule = `${Number((share * 100).toFixed(2))}% of the first attempts within ${formatDuration(windowMs)}, or ${Number(floor.toPrecision(3))} per second`
  const until = nextAt === undefined ? 'with the next claim' : `at ${timeText(nextAt)} at the latest`
  const whose = dependency === undefined ? `'${scope.kind}'` : `the dependency '${dependency}'`
  const text = `It is held by the retry budget of ${whose}, which lets ${rule} through: ${retried} for ${first} so far, and ${held} ${are(held)} due. The next ones pass ${until}.`
  const facts = { until: isoOrNull(nextAt), first, retried, held, ...(dependency !== undefined && { dependency }) }
  const args = commandArgs('budget ls')
  return { code: 'retry_budget', text, facts, action: { text: 'Fix the cause of the failures. See the budget.', args } }
}

function heldHead({ behindRetry: head }: Situation) {
  if (head === undefined) return undefined
  const text = `Its lane is ordered, and its first task '${head}' waits for its next attempt under a retry budget.`
  const action = { text: 'See what that task waits for.', args: commandArgs('why', {}, head) }
  return { code: 'head_under_budget', text, facts: { heldBy: head }, action }
}

function queuedBehind({ task, twin }: Situation) {
  const { unique, isQueued } = task
  if (isQueued !== true || unique === undefined) return undefined
  const whom = twin === undefined ? 'the task that has its unique key' : `the task '${twin}'`
  const text = `It waits for ${whom} to end, whose unique key is '${unique.key}', too.`
  const action =
    twin === undefined ? undefined : { text: 'See what that one waits for.', args: commandArgs('why', {}, twin) }
  return { code: 'queued_after', text, facts: { twin: twin ?? null, uniqueKey: unique.key }, ...(action && { action }) }
}

function notDue({ task, lane, last, now }: Situation) {
  const { nextAttemptAt: at } = task
  // The head of an ordered lane holds it, which has been said.
  if (at === undefined || at <= now || lane.heldBy === task.id) return undefined
  const until = `It is not due until ${timeText(at)}`
  const due = isoOrNull(at)
  switch (last?.outcome) {
    case 'retry':
    case 'lost': {
      const delay = last.delayMs === undefined ? '' : `, and its policy asked to wait ${formatDuration(last.delayMs)}`
      const text = `${until}: attempt ${last.attempt} failed at ${timeText(last.endedAt)}${errorText(task)}${delay}.`
      const facts = { at: due, attempt: last.attempt, errorCode: task.errorCode ?? null, delayMs: last.delayMs ?? null }
      return { code: 'retry_not_due', text, facts }
    }
    case 'deferred': {
      const step = last.notes?.step
      const text = `${until}: a rate limit asked ${step === undefined ? 'it' : `its step '${step}'`} to wait${errorText(task)}.`
      return { code: 'deferred', text, facts: { at: due, errorCode: task.errorCode ?? null } }
    }
    case 'later':
      if (last.notes?.step !== undefined) return stepNotDue(last.notes.step, until, last, task)
      return { code: 'asked_for_later', text: `${until}: its handler asked to be called later.`, facts: { at: due } }
    case 'rescheduled': {
      const { worker: who, reason: why, endedAt } = last
      const facts = { at: due, who, why: why ?? null, since: isoOrNull(endedAt) }
      return { code: 'rescheduled', text: `${until}: it was rescheduled${byText({ who, why }, undefined)}.`, facts }
    }
    default:
      return { code: 'scheduled', text: `${until}: it was enqueued for then.`, facts: { at: due } }
  }
}

function stepNotDue(step: string, until: string, last: LedgerRow, task: TaskStanding['task']) {
  const at = isoOrNull(task.nextAttemptAt)
  const { verdict, delayMs = 0, endedAt } = last
  // An earlier attempt may have met the failure, and its worker died before that could say so.
  const why =
    verdict === undefined
      ? `its step '${step}' waits for its next attempt`
      : `its step '${step}' failed at ${timeText(endedAt)}${errorText(task)}, and its policy asked to wait ${formatDuration(delayMs)}`
  return { code: 'step_not_due', text: `${until}: ${why}.`, facts: { at, step, errorCode: verdict?.code ?? null } }
}

function noWorker({ task, workers, able, expiresAt }: Situation) {
  if (able.length > 0) return undefined
  const end =
    expiresAt === undefined
      ? ''
      : ` Its time to live ends at ${timeText(expiresAt)}: ${workers.length === 0 ? 'the next worker that starts' : 'any worker'} gives it up then.`
  const life = expiresAt === undefined ? {} : { expiresAt: isoOrNull(expiresAt) }
  const kinds = [...new Set(workers.flatMap(({ kinds: known = [] }) => known))].sort()
  const others = workers.filter(worker => isRunBy({ ...worker, categories: undefined }, task))
  if (others.length > 0) {
    const taken = [...new Set(others.flatMap(({ categories = [] }) => categories))].sort()
    const category = `the category '${task.category}'`
    return {
      code: 'no_worker',
      text: `No live worker takes ${category} of its kind '${task.kind}': those that run its kind take ${taken.join(', ') || 'none'}.${end}`,
      facts: { kind: task.kind, workers: workers.length, kinds, categories: taken, ...life },
      action: {
        text: `Start a worker that takes ${category}, or start those that run its kind without a choice of categories.`,
        args: commandArgs('worker', { '--category': task.category }, 'FILE'),
      },
    }
  }
  const where = task.category === '' ? '' : ` in category '${task.category}'`
  const text =
    workers.length === 0
      ? 'No worker is running.'
      : `No live worker runs its kind '${task.kind}'${where}: those that are alive run ${kinds.join(', ') || 'nothing'}.`
  return {
    code: 'no_worker',
    text: `${text}${end}`,
    facts: { kind: task.kind, workers: workers.length, kinds, ...life },
    action: { text: `Start a worker that has code for '${task.kind}'.`, args: commandArgs('worker', {}, 'FILE') },
  }
}

function pausedWorkers({ able, task }: Situation) {
  if (able.length === 0 || able.some(({ isPaused = false }) => !isPaused)) return undefined
  const names = able.map(({ name }) => name)
  const whose =
    names.length === 1
      ? `The only live worker that runs its kind '${task.kind}' is`
      : `All live workers that run its kind '${task.kind}' are`
  const listed =
    names.slice(0, MAX_NAMED).join(', ') + (names.length > MAX_NAMED ? ` and ${names.length - MAX_NAMED} more` : '')
  return {
    code: 'workers_paused',
    text: `${whose} paused by code: ${listed}.`,
    facts: { kind: task.kind, paused: names },
    action: {
      text: `Call resume() where the worker was paused, or start another one that has code for '${task.kind}'.`,
      args: commandArgs('worker', {}, 'FILE'),
    },
  }
}

function undecided({ isUndecided }: Situation) {
  if (!isUndecided) return undefined
  const text = 'Its worker died. The next worker that claims it decides whether it is run again.'
  return { code: 'undecided', text, facts: {} }
}

function fullLane({ lane, ramp = Infinity }: Situation) {
  const { concurrency = Infinity } = lane.limits
  const most = Math.min(concurrency, ramp)
  if (lane.running < most) return undefined
  const facts = { running: lane.running, allowed: most }
  const action = { text: 'See its lane, with its limits.', args: laneList(lane) }
  if (ramp < concurrency) {
    const text = `Its lane starts slowly after a rate limit: ${tasksText(most)} may run at once for now, and ${lane.running} ${are(lane.running)} running.`
    return { code: 'starts_slowly', text, facts, action }
  }
  const text = `Its lane has reached its limit: ${tasksText(most)} may run at once, and ${lane.running} ${are(lane.running)} running.`
  return { code: 'lane_full', text, facts, action }
}

function slowLane({ lane, rateOpensAt, now }: Situation) {
  if (rateOpensAt === undefined || rateOpensAt <= now) return undefined
  const text = `The rate of its lane, ${lane.limits.perSecond} per second, lets the next task start at ${timeText(rateOpensAt)}.`
  return { code: 'lane_rate', text, facts: { at: isoOrNull(rateOpensAt), perSecond: lane.limits.perSecond ?? null } }
}

function fullSharedLimit({ lane, shared }: Situation) {
  const most = lane.shared?.limits.concurrency
  if (shared?.running === undefined || most === undefined || shared.running < most) return undefined
  const quota = lane.shared?.quota
  const what = quota === undefined ? 'The limit that its lane shares with others' : `Its quota '${quota}'`
  const text = `${what} is reached: ${tasksText(most)} may run at once, and ${shared.running} ${are(shared.running)} running.`
  const action = { text: 'See these lanes, with their limits.', args: commandArgs('lane ls', { '--kind': lane.kind }) }
  const facts = { running: shared.running, allowed: most, ...(quota !== undefined && { quota }) }
  return { code: 'shared_limit_full', text, facts, action }
}

function slowSharedLimit({ lane, shared, now }: Situation) {
  if (shared === undefined || shared.opensAt <= Math.max(now, lane.heldUntil ?? 0)) return undefined
  const quota = lane.shared?.quota
  const what = quota === undefined ? 'that its lane shares with others' : `of its quota '${quota}'`
  const text = `The rate ${what} lets it start at ${timeText(shared.opensAt)}.`
  const facts = {
    at: isoOrNull(shared.opensAt),
    pace: lane.shared?.pace ?? null,
    ...(quota !== undefined && { quota }),
  }
  return { code: 'shared_rate', text, facts }
}

function alone({ task }: Situation) {
  if (!runsAlone(task)) return undefined
  const text = `It must run alone, since ${task.losses} workers died while running it: it waits until a worker has nothing else to do.`
  const action = { text: 'Look for what kills its workers.', args: commandArgs('task show', {}, task.id) }
  return { code: 'runs_alone', text, facts: { losses: task.losses }, action }
}

function behindOthers({ before, able }: Situation) {
  if (before === undefined || before === 0) return undefined
  const isMore = before > MAX_BEFORE
  const count = isMore ? `More than ${tasksText(MAX_BEFORE)}` : tasksText(before)
  return {
    code: 'behind_others',
    text: `${count} of its lane ${before === 1 ? 'comes' : 'come'} before it.`,
    facts: { before: isMore ? MAX_BEFORE : before, isMore, workers: able.length },
  }
}

/** The way to get sooner to a task that waits for nothing but the tasks before it. */
function getAhead({ lane }: Situation): WhyAction {
  if (lane.limits.isOrdered) {
    return { text: 'Its lane is ordered: its tasks run one after another. See its lane.', args: laneList(lane) }
  }
  const { concurrency, perSecond } = lane.limits
  if (concurrency !== undefined || perSecond !== undefined || lane.shared !== undefined) {
    return { text: 'Its lane is limited, so more workers may not help. See its limits.', args: laneList(lane) }
  }
  return lane.running === 0
    ? STARVED
    : { text: 'To get to it sooner, start more workers, or give them more concurrency.', args: null }
}

/** More workers would run more of the tasks that take the slots now. */
const STARVED: WhyAction = {
  text: "No task of its lane is running. If its workers are busy, tasks of other kinds have taken their slots: see those first, and keep slots free for its kind ('reserve' of a worker), or run it in a worker of its own.",
  args: commandArgs('stats'),
}

/** Nothing keeps it. */
function next({ able, lane }: Situation): WhyCause & { readonly action?: WhyAction } {
  const workers = `${able.length} live ${able.length === 1 ? 'worker runs' : 'workers run'} its kind`
  return {
    code: 'next',
    text: `Nothing holds it: it is the first of its lane, and ${workers}. If it stays, they are all busy.`,
    facts: { workers: able.length, running: lane.running },
    action: { text: 'See the live workers.', args: commandArgs('worker ls') },
  }
}

function laneList({ kind, category, key }: Situation['lane']): string[] {
  return commandArgs('lane ls', { '--kind': kind, '--category': category, '--key': key })
}

function are(count: number): string {
  return count === 1 ? 'is' : 'are'
}
