// Names of members, which raw clients may spell as Google's servers also read them: with underscores.
import { Members } from '../canonical/members.ts'
import type { JsonObject } from '../object.ts'

/** A request's members by their names in camel case, however they are spelled. */
export function readMembers(body: JsonObject): Members {
  return new Members(body, '', (key) => key.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`))
}
