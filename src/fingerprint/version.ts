/** Part of every fingerprint: grows whenever the same failure would get another one. */
export const FINGERPRINT_VERSION = 1
