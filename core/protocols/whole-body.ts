// Reads a member of an answer that is one message, without parsing all the rest of it.
import type { Payload } from './payload.ts'

/** Bytes of a member: nobody needs more to say what was used. */
const longest = 64 * 1024

/** Whether it is an object whose members can be read by themselves, and which nobody has parsed. */
export function isUnparsedBody({ kind, parsed, lens }: Payload): boolean {
  return kind === 'json' && !parsed && lens !== undefined
}

/** Of the object, parsed; undefined when it is not there, or too long. */
export function memberOf({ lens }: Payload, key: string): unknown {
  return lens && lens.size(key) <= longest ? lens.json(key) : undefined
}
