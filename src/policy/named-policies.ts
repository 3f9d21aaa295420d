import { policy } from './parse.js'

/** The default policy of each kind of work. Spread one to change it: `{ ...policies.task, attempts: 5 }`. */
export const policies = {
  /** A call in process: three attempts within a few seconds. */
  call: /* @__PURE__ */ policy({ attempts: 3, backoff: { base: '1s', max: '30s' } }),
  /** An event handler: eight attempts within half an hour. */
  event: /* @__PURE__ */ policy({
    attempts: 8,
    backoff: { base: '250ms', max: '60s' },
    ttl: '30m',
  }),
  /** A durable task: eight attempts over two hours, and patience with rate limits. */
  task: /* @__PURE__ */ policy({
    attempts: 8,
    deferrals: 100,
    backoff: { base: '60s', max: '1h' },
    jitter: 'none',
    timeout: '1h',
  }),
  /** A stage of a pipeline. */
  stage: /* @__PURE__ */ policy({
    attempts: 3,
    deferrals: 100,
    backoff: { base: '1s', max: '60s' },
    jitter: { kind: 'proportional', ratio: 0.25 },
    timeout: '30s',
    retryOn: 'all',
  }),
  /** One attempt, whatever happens. */
  once: /* @__PURE__ */ policy({ attempts: 1, backoff: 'none', jitter: 'none' }),
} as const
