// Puts the public model name back into answers of an upstream that knows the model by another name.
import type { Stage } from '../../contract/contract.ts'
import type { Lens } from '../../bodies/lens.ts'
import type { Message } from '../../contract/message.ts'
import { withMembers } from '../../bodies/splice.ts'
import type { Protocol } from '../../protocols/index.ts'

/** Of protocols that say nothing else. */
const usual = [['model']] as const

/**
 * A stage that sets the model's name wherever the protocol has it in an event or body to `name`, and leaves all other
 * bytes. Answers too large to be held as one message keep the upstream's name.
 */
export function restoreModelName(name: string, { modelPlaces = usual }: Protocol): Stage {
  const text = JSON.stringify(name)
  // Most events name no model: those are not looked into.
  const signs = [...new Set(modelPlaces.map((place) => `"${place.at(-1)}"`))]
  const changes = (message: Message, lens: Lens): Map<string, string> => {
    const made = new Map<string, string>()
    for (const [outer, inner] of modelPlaces) {
      if (inner === undefined) {
        if (lens.has(outer)) made.set(outer, text)
      } else {
        const within = message.inside(outer)
        if (within?.has(inner))
          made.set(outer, Buffer.concat(withMembers(within, new Map([[inner, text]]))).toString('utf8'))
      }
    }
    return made
  }
  return {
    takes: 'runs',
    borrows: true,
    map(message, emit) {
      emit(message.kind === 'event' || message.kind === 'json' ? rename(message, signs, changes) : message)
    }
  }
}

function rename(
  message: Message,
  signs: readonly string[],
  changes: (message: Message, lens: Lens) => ReadonlyMap<string, string>
): Message {
  const lens = signs.some((sign) => message.data.includes(sign)) ? message.lens : undefined
  const made = lens && changes(message, lens)
  return made && made.size > 0 ? message.withData(Buffer.concat(withMembers(lens, made))) : message
}
