// Reads members in both spellings that Google's servers accept: camel case, and with underscores.
import { Members } from '../canonical/members.ts'
import type { JsonObject } from '../object.ts'

/** The members of a request by their names in camel case, in either spelling. */
export function readMembers(body: JsonObject): Members {
  return new Members(body, '', (key) => key.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`))
}
