// Why an answer ended, decided by what is in it.
import type { Finish } from './answer.ts'

/** Whether it ended before the model was done: the last that it said may not be whole. */
export function isCut({ reason }: Finish): boolean {
  return reason === 'length' || reason === 'content_filter'
}

/** Calls win over what the upstream says, as several say `stop` with calls; a cut or a refusal is one all the same. */
export function finishOf(finish: Finish, hasCalls: boolean): Finish {
  if (hasCalls) return finish.reason === 'stop' || finish.reason === 'sequence' ? { reason: 'tool_calls' } : finish
  return finish.reason === 'tool_calls' ? { reason: 'stop' } : finish
}
