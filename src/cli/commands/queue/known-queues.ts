import type { Command } from 'commander'
import type { Bus } from '../../../bus/index.js'
import { NoFailedQueueError } from '../../../operate/index.js'
import type { KnownQueues } from '../../../operate/internal.js'
import { type Preset, presetNamed, presets } from '../../../presets/index.js'
import type { Environment } from '../../environment.js'
import { CommandError } from '../../errors.js'
import { suggest } from '../../suggest.js'
import type { KnownBusOptions } from '../shared/bus-options.js'
import { withBus } from '../shared/open-bus.js'
import { nonEmpty } from '../shared/options.js'

/** The flags of every command for failed queues. */
export interface QueueOptions extends KnownBusOptions {
  readonly preset?: string
}

const WITH_ROUTES = Object.values<Preset>(presets).filter(({ routes }) => routes !== undefined)

/** Adds the flag that names a preset. */
export function withPresetOption(command: Command): Command {
  const names = WITH_ROUTES.map(({ name }) => name).join(', ')
  return command.option(
    '--preset <name>',
    `Preset with routes for failed queues: ${names} (or REDRIVE_PRESET)`,
    nonEmpty,
  )
}

/** Opens the bus for a command about its failed queues, with what flags and preset tell about them. */
export async function withQueues<T>(
  options: QueueOptions,
  environment: Environment,
  use: (bus: Bus, known: KnownQueues) => Promise<T>,
): Promise<T> {
  const preset = options.preset ?? (environment.env.REDRIVE_PRESET || undefined)
  const routes = preset === undefined ? undefined : presetNamed(preset).routes
  try {
    return await withBus(options, environment, bus => use(bus, { topology: options.queue, routes }))
  } catch (error) {
    if (!(error instanceof NoFailedQueueError)) throw error
    throw new CommandError(`${error.message} To list failed queues, run: ${suggest('queue ls')}`, { cause: error })
  }
}

/** The name of the preset that has a route for a failed queue. */
export function presetFor(failedQueue: string): string | undefined {
  return WITH_ROUTES.find(({ routes = {} }) => Object.hasOwn(routes, failedQueue))?.name
}
