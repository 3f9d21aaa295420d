// Every contestant is a file with the same exports; what a library cannot do, its file leaves out.
//
//   name                what the tables call it
//   immediate()         makes a caller (fn => promise) with three attempts and no delay
//   patient(signal?)    makes a caller with three attempts an hour apart, which an aborted signal ends at once
//                       `keeps` says what it holds meanwhile, `signalNote` what it makes of the signal
//   stack()             makes a caller with all that the library has of: retry, timeout per attempt, circuit breaker,
//                       retry budget, a listener; `stackNote` says what it lacks
//   entry               a module that uses it for retrying, to be bundled
import * as asyncRetry from './async-retry.mjs'
import * as attempt from './attempt.mjs'
import * as cockatiel from './cockatiel.mjs'
import * as effect from './effect.mjs'
import * as loop from './loop.mjs'
import * as pRetry from './p-retry.mjs'
import * as redrive from './redrive.mjs'
import * as redriveInline from './redrive-inline.mjs'

/** In the order of the tables. The loop comes first: the others are ratios to it. */
export const contestants = [loop, redrive, redriveInline, cockatiel, attempt, pRetry, asyncRetry, effect]
