// Puts the public model name back into answers of an upstream that knows the model by another name.
import type { Stage } from './contract.ts'
import { splice } from './body.ts'
import { Lens, LensError } from './lens.ts'
import { Message } from './message.ts'

/**
 * A stage that sets the top-level `model` of every event or body to `name` and leaves all other bytes. Answers too large
 * to be held as one message keep the upstream's name.
 */
export function restoreModelName(name: string): Stage {
  const changes = new Map([['model', JSON.stringify(name)]])
  return {
    map(message, emit) {
      emit(message.kind === 'event' || message.kind === 'json' ? rename(message, changes) : message)
    }
  }
}

function rename(message: Message, changes: ReadonlyMap<string, string>): Message {
  const { bytes, data, kind } = message
  if (!data.includes('"model"')) return message
  let renamed
  try {
    const lens = new Lens(data)
    if (!lens.has('model')) return message
    renamed = splice(lens, changes)
  } catch (error) {
    if (error instanceof LensError) return message
    throw error
  }
  const start = data.byteOffset - bytes.byteOffset
  const isView = data.buffer === bytes.buffer && start >= 0 && start + data.length <= bytes.length
  if (!isView) return Message.event(renamed.toString('utf8'), message.event)
  const whole = Buffer.concat([bytes.subarray(0, start), renamed, bytes.subarray(start + data.length)])
  return new Message(kind, whole, whole.subarray(start, start + renamed.length), message.event)
}
