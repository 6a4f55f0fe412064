// Takes out of what an upstream says whatever clients must not see: secrets of its channel, its address, anybody's keys
// and accounts.
import type { Channel } from '../../catalogue/catalogue.ts'
import { secretsOf } from '../../contract/secrets.ts'

/** Longest text that is looked through, and longest text and name that are passed on, in characters. */
const readLength = 64 * 1024
const longestText = 1000
const longestName = 128

const tags = /<[^<>]{1,200}>/g

/** A text for people, cleaned and then cut. */
export function cleanText(text: string, channel: Channel): string {
  const clean = secretsOf(channel).without(text.slice(0, readLength))
  return clean.replace(tags, ' ').slice(0, longestText).trim()
}

/** A name for programs (a code, a type, a field), as it came; undefined when something in it has to be taken out. */
export function cleanName(name: string | undefined, channel: Channel): string | undefined {
  return name !== undefined && name.length <= longestName && isClean(name, channel) ? name : undefined
}

/** Whether there is nothing in it that has to be taken out. */
export function isClean(text: string, channel: Channel): boolean {
  return secretsOf(channel).without(text) === text
}
