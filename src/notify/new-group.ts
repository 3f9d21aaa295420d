import type { GroupRecord, GroupStore } from '../store/index.js'
import { redact } from '../telemetry/index.js'
import type { Notice } from './notice.js'
import { isOwnKind, type Occasion } from './occasion.js'

const PAGE = 100

/** Tells when work fails in a way that was not seen before: once per group, however many fail. A group that somebody has marked is no news. */
export const newGroup: Occasion = async ({ store, since }) => {
  const notices: Notice[] = []
  for await (const group of seenSince(store.groups, since)) {
    const isNews = group.firstSeenAt >= since && group.life.state === 'new'
    if (isNews && !isOwnKind(group.kind)) notices.push(noticeOf(group))
  }
  return notices
}

/** Groups come last seen first, so those that matter are in front. */
export async function* seenSince(groups: GroupStore, since: number): AsyncGenerator<GroupRecord> {
  let after: string | undefined
  do {
    const { items, next } = await groups.list({}, { limit: PAGE, ...(after !== undefined && { after }) })
    for (const group of items) {
      if (group.lastSeenAt < since) return
      yield group
    }
    after = next
  } while (after !== undefined)
}

function noticeOf({ id, kind, code, errorName, pattern, seen, retrying, dead }: GroupRecord): Notice {
  const what = [errorName, pattern].filter(part => part !== '').join(': ')
  const times = seen === 1 ? 'once' : `${seen} times`
  return {
    type: 'new_group',
    subject: id,
    text: redact(`New failure of ${kind}: ${code}, ${what}. Seen ${times}; ${retrying} retrying, ${dead} dead.`),
    facts: { group: id, kind, code, errorName, pattern: redact(pattern), seen, retrying, dead },
  }
}
