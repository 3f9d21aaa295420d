/** The version of this package, as a constant: in a bundle, no package.json of ours lies beside the code. */
export const VERSION = '0.1.0'
