// Reads one member of a whole answer without parsing the rest.
import type { Payload } from './payload.ts'

/** The largest member that is parsed, in bytes. Usage is never larger. */
const longest = 64 * 1024

/** Whether it is a whole body that nobody has parsed and that a lens can read. */
export function isUnparsedBody({ kind, parsed, lens }: Payload): boolean {
  return kind === 'json' && !parsed && lens !== undefined
}

/** The parsed member; undefined when it is absent or too large. */
export function memberOf({ lens }: Payload, key: string): unknown {
  return lens && lens.size(key) <= longest ? lens.json(key) : undefined
}
