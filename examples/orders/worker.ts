import { defineTask, Worker } from 'redrive/task'
import type { PaymentProvider } from './payments.js'
import type { Shop } from './shop.js'
import { chargeCard, sendReceipt } from './tasks.js'

/** A worker that charges the cards of a shop and mails its receipts. */
export function shopWorker(shop: Shop, payments: PaymentProvider, mail: (order: number) => void): Worker {
  const charge = defineTask(chargeCard, {
    async handler({ order, cents }, task) {
      // The provider is outside of our database, so this may run twice. The task's id lets the provider see that.
      const receipt = await payments.charge(order, cents, task.id, task.signal)
      await shop.markPaid(order, receipt, task)
    },
  })
  const receipt = defineTask(sendReceipt, { handler: ({ order }) => mail(order) })
  return new Worker(shop.store, { tasks: [charge, receipt], concurrency: 20 })
}
