// Which call a delta is of, where upstreams do not number their calls.
import { asText } from '../object.ts'
import type { JsonObject } from '../object.ts'

/** What is known of a call that has begun; empty texts where nothing is. */
interface Begun {
  readonly id: string
  readonly name: string
}

/**
 * The number of the call that a delta begins or goes on with. Without a number it is a new one if it has an id or a
 * name of its own, and else goes on with the last. `begun`: how many there are, and `last` of them.
 */
export function placeOfCall({ index, id }: JsonObject, name: unknown, begun: number, last: Begun | undefined): number {
  if (typeof index === 'number') return index
  const isNew =
    !last || (asText(id) !== '' && id !== last.id) || (asText(id) === '' && asText(name) !== '' && last.name !== '')
  return isNew ? begun : begun - 1
}
