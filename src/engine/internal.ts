// For the other folders of this package.

export { Bell } from './bell.js'
export { type Death, type DeathReason, followers } from './death.js'
export {
  type Decode,
  decodedNotes,
  decodedRow,
  decodedStep,
  decodedTask,
  leniently,
  readableError,
  strictly,
} from './decoded-records.js'
export type { DrainOptions, DrainResult } from './drain.js'
export type { Duty } from './duties.js'
export { DutyWarnings } from './duty-warnings.js'
export { Ending } from './ending.js'
export { Engine, type EngineSettings } from './engine.js'
export { LeaseLostError, StepError, StepFailedError, TaskCancelledError, WorkerStoppedError } from './errors.js'
export { isLostGroup, plannedMoves } from './grouping/planned-moves.js'
export { regroup } from './grouping/regroup.js'
export { type RetentionOptions, toRetention } from './janitor.js'
export type { JointCall } from './joint/joint-call.js'
export { JointCalls } from './joint/joint-calls.js'
export { policyOfMember } from './joint/policy-of-member.js'
export { usedTogether } from './joint/used-together.js'
export { loadTimetables } from './load-timetables.js'
export { readSlots } from './operations/backfill-step.js'
export { driveOperation } from './operations/drive-operation.js'
export { fixWait } from './operations/fix-wait.js'
export { DOCUMENT_KIND, EVENT_KIND } from './operations/made-payload.js'
export {
  PAYLOAD_INVALID,
  type PayloadChecks,
  payloadAfter,
  payloadChecks,
  replacementProblem,
} from './operations/next-payload.js'
export { hasUnended, outstanding } from './operations/next-step.js'
export type { OutsideBatch, OutsideTarget, OutsideWork } from './operations/outside-work.js'
export { ALREADY_DUE, refusalOf } from './operations/refuse-member.js'
export { isLater, isSkip, Later, later, Skip, skip } from './outcomes.js'
export { policyWith } from './own-policies.js'
export { releaseOf } from './release.js'
export type { RunFollower, RunNews } from './run-keeper.js'
export { entryOf, outcomeOf } from './settlement.js'
export { noSteps } from './steps/no-steps.js'
export type { StepContext, StepOptions, StepWork } from './steps/step.js'
export { toMs } from './to-ms.js'
export { validCost } from './valid-cost.js'
export {
  type AttemptRecorder,
  type KindOptions,
  type PayloadCheck,
  taskWork,
  type WorkKind,
  type WorkSource,
} from './work-kind.js'
