export { ActiveAttempt, type Driver } from './active-attempt.js'
export { connectAdvice } from './connect-advice.js'
export { RefusedError } from './errors.js'
export { judge, judgeLoss } from './judge.js'
export { type Outage, Outages } from './outages.js'
export { Overrun } from './overrun.js'
export { isRefusal, type PersistOptions, persist, UNTIL_ANSWERED } from './persist.js'
export type {
  End,
  Environment,
  Failed,
  HandlerSteps,
  Judgement,
  Plan,
  Refused,
  Returned,
  StepName,
  Stopped,
} from './plan.js'
export { report } from './report.js'
export {
  type AttemptSpan,
  activeTraceparent,
  currentTracer,
  type SpanEnd,
  type TracedAttempt,
  type Tracer,
  traceWith,
} from './tracer.js'
