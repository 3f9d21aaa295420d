import type { GroupRecord } from '../store/index.js'
import { redact } from '../telemetry/index.js'
import { seenSince, toSee, whatFailed } from './new-group.js'
import type { Notice } from './notice.js'
import { isOwnKind, type Occasion } from './occasion.js'

/** Tells when work fails again in a way that was fixed: once per mark. */
export const regressed: Occasion = async ({ store, since }) => {
  const notices: Notice[] = []
  for await (const group of seenSince(store.groups, since)) {
    const notice = isOwnKind(group.kind) ? undefined : noticeOf(group, since)
    if (notice !== undefined) notices.push(notice)
  }
  return notices
}

function noticeOf(group: GroupRecord, since: number) {
  const { id, kind, code, errorName, pattern, life, ...figures } = group
  if (life.state !== 'regressed' || life.at < since) return undefined
  const { at, who, release, fixedIn } = life
  const { seen, retrying, dead } = figures
  const failed = release === undefined ? 'fails again' : `fails again in ${release}`
  const fixed = fixedIn === undefined ? 'as fixed' : `as fixed in ${fixedIn}`
  return {
    type: 'regressed',
    // A group may regress again, after another fix.
    subject: `${id}/${at}`,
    text: `${redact(
      `${kind} ${failed}: ${whatFailed(group)}. ${who} had marked it ${fixed}. ${retrying} retrying, ${dead} dead.`,
    )} ${toSee(id)}`,
    facts: {
      group: id,
      kind,
      code,
      errorName,
      pattern: redact(pattern),
      who,
      release: release ?? null,
      fixedIn: fixedIn ?? null,
      seen,
      retrying,
      dead,
    },
  } satisfies Notice
}
