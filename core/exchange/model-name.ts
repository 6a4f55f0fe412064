// Puts the public model name back into answers of an upstream that knows the model by another name.
import type { Stage } from '../contract/contract.ts'
import type { Message } from '../contract/message.ts'
import { withMembers } from '../bodies/splice.ts'

/**
 * A stage that sets the top-level `model` of every event or body to `name` and leaves all other bytes. Answers too large
 * to be held as one message keep the upstream's name.
 */
export function restoreModelName(name: string): Stage {
  const changes = new Map([['model', JSON.stringify(name)]])
  return {
    takes: 'runs',
    map(message, emit) {
      emit(message.kind === 'event' || message.kind === 'json' ? rename(message, changes) : message)
    }
  }
}

function rename(message: Message, changes: ReadonlyMap<string, string>): Message {
  const lens = message.data.includes('"model"') ? message.lens : undefined
  return lens?.has('model') ? message.withData(Buffer.concat(withMembers(lens, changes))) : message
}
