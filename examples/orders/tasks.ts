import { declareTask } from 'redrive/task'

/** Charges the card of an order. A web server that places orders needs no more than this declaration. */
export const chargeCard = declareTask<{ order: number; cents: number }>('charge-card', {
  policy: { attempts: 5, backoff: { base: '20ms', max: '1s' }, jitter: 'full', timeout: '10s', giveUpOn: [402] },
})

/** Mails the receipt of an order that is paid. */
export const sendReceipt = declareTask<{ order: number }>('send-receipt', {
  policy: { attempts: 5, backoff: { base: '20ms', max: '1s' } },
})
