// Finds the call that a delta belongs to, for upstreams that do not number their calls.
import { asText } from '../object.ts'
import type { JsonObject } from '../object.ts'

/** What is known of a call that has begun. What is unknown is empty. */
interface Begun {
  readonly id: string
  readonly name: string
}

/**
 * The index of the call that a delta begins or continues. Without an index it begins a new call if it has a new id or
 * name, and continues the last one otherwise. `begun`: how many calls there are; `last`: the last of them.
 */
export function placeOfCall({ index, id }: JsonObject, name: unknown, begun: number, last: Begun | undefined): number {
  if (typeof index === 'number') return index
  const isNew =
    !last || (asText(id) !== '' && id !== last.id) || (asText(id) === '' && asText(name) !== '' && last.name !== '')
  return isNew ? begun : begun - 1
}
