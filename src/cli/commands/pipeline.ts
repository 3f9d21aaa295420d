import type { Command } from 'commander'
import type { CommandContext } from '../command.js'
import { addRunControl } from './pipeline-control.js'
import { addRunLists } from './pipeline-list.js'
import { addReprocess } from './pipeline-reprocess.js'
import { addResume } from './pipeline-resume.js'
import { addRun } from './pipeline-run.js'
import { addRunSettings } from './pipeline-set.js'

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
