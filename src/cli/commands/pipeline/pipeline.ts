import type { Command } from 'commander'
import type { CommandContext } from '../../command.js'
import { addRunControl } from './control.js'
import { addRunLists } from './list.js'
import { addReprocess } from './reprocess.js'
import { addResume } from './resume.js'
import { addRun } from './run.js'
import { addRunSettings } from './set.js'

/** Adds `redrive pipeline`. */
export function addPipeline(program: Command, context: CommandContext): void {
  const pipeline = program
    .command('pipeline')
    .helpCommand(false)
    .description('Run items through the stages of a pipeline, and look after the runs')
  addRun(pipeline, context)
  addResume(pipeline, context)
  addRunLists(pipeline, context)
  addRunSettings(pipeline, context)
  addRunControl(pipeline, context)
  addReprocess(pipeline, context)
}
