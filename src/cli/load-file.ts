import { createRequire } from 'node:module'
import { pathToFileURL } from 'node:url'
import { CommandError } from './errors.js'

const TYPESCRIPT = /\.[cm]?tsx?$/

/**
 * Loads a module of the user's: JavaScript, or TypeScript with tsx if the project has it, else with Node's own support,
 * which only removes types.
 */
export async function loadFile(path: string): Promise<object> {
  if (TYPESCRIPT.test(path) && !hasLoader()) await registerTypeScript(path)
  return exportsOf(await import(pathToFileURL(path).href))
}

/** The exports of a module. Those of TypeScript that was compiled to CommonJS are within its default export. */
function exportsOf(module: object): object {
  const inner: unknown = Reflect.get(module, 'default')
  return typeof inner === 'object' && inner !== null && '__esModule' in inner ? inner : module
}

/** Whether Node was started with a loader, which then knows what to do: `NODE_OPTIONS='--import tsx'`. */
function hasLoader(): boolean {
  const options = [...process.execArgv, process.env.NODE_OPTIONS ?? ''].join(' ')
  return /(^|\s)(--import|--loader|--experimental-loader|--require|-r)\b/.test(options)
}

/** Importing tsx registers it, as `node --import tsx` does. */
async function registerTypeScript(path: string): Promise<void> {
  const tsx = installedTsx(path)
  if (tsx !== undefined) await import(pathToFileURL(tsx).href)
  else if (!hasOwnTypeScript()) {
    throw new CommandError(
      `Node ${process.versions.node} cannot load TypeScript by itself. Install tsx in your project: npm install --save-dev tsx`,
    )
  }
}

/** The tsx that the project of a file has installed. */
function installedTsx(path: string): string | undefined {
  try {
    return createRequire(path).resolve('tsx')
  } catch {
    return undefined
  }
}

/** From Node 22.18 and 23.6 on. */
function hasOwnTypeScript(): boolean {
  return Boolean(Reflect.get(process.features, 'typescript'))
}
