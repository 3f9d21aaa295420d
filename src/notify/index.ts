export type { NoticeType, Notification } from './notice.js'
export { Notifier, type NotifyOptions, notify } from './notifier.js'
export { slack, type Target, type TargetOptions, webhook } from './target.js'
