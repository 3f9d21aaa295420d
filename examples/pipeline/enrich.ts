import { HttpError } from 'redrive'
import { pipeline, stage } from 'redrive/pipeline'
import { skip } from 'redrive/task'

/** A line of the input. */
export interface Sample {
  readonly id: number
  readonly text: string
}

/** Three stages: build a prompt, ask the model, drop what is of no use. `clean` is what version 2 adds. */
export function enrich(url: string, version: string, clean = (text: string) => text) {
  return pipeline(
    { name: 'enrich', version },
    stage('prompt', ({ id, text }: Sample) => ({ id, prompt: `Summarise: ${text}` })),
    stage(
      'llm_call',
      async ({ id, prompt }, { signal }) => {
        const response = await fetch(url, { method: 'POST', body: clean(prompt), signal })
        // A 429 holds the stage for everyone, a 422 is final, and a 500 is tried again.
        if (!response.ok) throw new HttpError(response)
        return { id, answer: await response.text() }
      },
      { concurrency: 20, timeout: '5s', policy: { attempts: 4, backoff: { base: '100ms' }, giveUpOn: [422] } },
    ),
    stage('filter', sample => (sample.id % 25 === 7 ? skip('too short to be of use') : sample)),
  )
}
