import { policy } from 'redrive'
import { defineTask, skip, type TaskQueue } from 'redrive/task'
import { Service } from './bad-day.js'

/** The requests per second that the service allows each account. The first two are busier than that. */
const ACCOUNTS = { acme: 25, globex: 25, hooli: 500, initech: 500, umbrella: 500, wonka: 500 }

/** How many tasks a run adds. */
export const BATCH = { emails: 1500, charges: 700, syncs: 800 } as const
export const BATCH_SIZE = BATCH.emails + BATCH.charges + BATCH.syncs

/** Four attempts, close together: nobody wants to watch a demo for the two hours that `policies.task` takes. */
const HASTY = policy({
  attempts: 4,
  deferrals: 100,
  timeout: '500ms',
  backoff: { base: '200ms', max: '1s' },
  jitter: 'equal',
})

interface Batched {
  readonly batch: number
}

/** The three kinds of task, as the run of this batch meets them: the outages of earlier batches are over. */
export function demoTasks(batch: number) {
  const mail = new Service({ refused: 0.02, down: 0.01, troubled: [0.12, 0.05, 0.02] }, 'mailbox_unknown')
  const bank = new Service({ refused: 0.03, down: 0.01, troubled: [0.1, 0.03, 0.01] }, 'card_declined')
  const crm = new Service({ refused: 0.01, down: 0.005, troubled: [0.05, 0.02, 0] }, 'account_closed')
  const isOver = (payload: Batched) => payload.batch < batch

  const sendEmail = defineTask('send-email', {
    policy: HASTY,
    handler: async (email: Batched & { to: string; isUnsubscribed: boolean }, task) => {
      if (email.isUnsubscribed) return skip('unsubscribed')
      await mail.ask(task, isOver(email))
      return { sent: email.to }
    },
  })
  const chargeCard = defineTask('charge-card', {
    policy: HASTY,
    handler: async (order: Batched & { cents: number }, task) => {
      await bank.ask(task, isOver(order))
      return { receipt: `r-${task.id}`, cents: order.cents }
    },
  })
  const syncAccount = defineTask('sync-account', {
    policy: HASTY,
    handler: async (account: Batched & { name: keyof typeof ACCOUNTS }, task) => {
      crm.limit(account.name, ACCOUNTS[account.name])
      await crm.ask(task, isOver(account))
    },
  })
  return { sendEmail, chargeCard, syncAccount }
}

/** Enqueues a batch under ids of its own: what a run that was cut short has enqueued already is not enqueued again. */
export async function enqueueBatch(queue: TaskQueue, tasks: ReturnType<typeof demoTasks>, batch: number) {
  const accounts = Object.keys(ACCOUNTS) as (keyof typeof ACCOUNTS)[]
  const added = await Promise.all([
    queue.enqueueMany(
      tasks.sendEmail,
      numbered(BATCH.emails, n => ({
        id: `email-${batch}-${n}`,
        payload: { batch, to: `user${n}@example.com`, isUnsubscribed: n % 50 === 0 },
      })),
    ),
    queue.enqueueMany(
      tasks.chargeCard,
      numbered(BATCH.charges, n => ({
        id: `charge-${batch}-${n}`,
        payload: { batch, cents: 100 + n },
        priority: 1, // Money first.
      })),
    ),
    queue.enqueueMany(
      tasks.syncAccount,
      numbered(BATCH.syncs, n => {
        const name = accounts[n % accounts.length] ?? 'acme'
        return { id: `sync-${batch}-${n}`, key: name, payload: { batch, name } } // A lane for each account.
      }),
    ),
  ])
  return added.flat().filter(({ isNew }) => isNew).length
}

function numbered<T>(count: number, make: (n: number) => T): T[] {
  return Array.from({ length: count }, (_, i) => make(i + 1))
}
