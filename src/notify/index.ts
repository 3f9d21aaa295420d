export type { Notification } from './notice.js'
export { Notifier, type NotifyOptions, notify } from './notifier.js'
export { slack, type Target, webhook } from './target.js'
