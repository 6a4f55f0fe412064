// How much memory it takes to translate a body, told by its structure before anything is made of it.
import { stringEnd } from '../../core/contract/contract.ts'

/** What a body takes for its bytes: as text, as values that have the text, and as it is written. */
const ofByte = 3
/**
 * What its values take, in bytes, from the client's form to the upstream's: an object and each member of one, a list
 * and whatever follows a comma. Measured for the worst that there is, conversations of many short messages and lists
 * of empty lists, between all protocols.
 */
const ofMember = 320
const ofElement = 40

const quote = 0x22

/** Bytes of memory that translating a JSON body takes, about and at most; more than `most` is not told exactly. */
export function effortOf(bytes: Buffer, most: number): number {
  let effort = bytes.length * ofByte
  for (let at = 0; at < bytes.length && effort <= most; at++) {
    switch (bytes[at]!) {
      case quote:
        at = stringEnd(bytes, at + 1)
        break
      case 0x7b:
      case 0x3a:
        effort += ofMember
        break
      case 0x5b:
      case 0x2c:
        effort += ofElement
        break
      default:
    }
  }
  return effort
}

/** Bytes up to which an event is translated without a look at what it is made of. */
const smallEvent = 64 * 1024
/** Values in one event: of more the event loop would be held for long. */
const mostValues = 50_000

/** Bytes of an event that are translated at once: a picture of 6 MB, which is all that is that large. */
const largestEvent = 8 * 1024 * 1024

/** Whether an event is larger, or has more values, than what is translated at once. */
export function isInvolved(bytes: Buffer): boolean {
  if (bytes.length <= smallEvent) return false
  if (bytes.length > largestEvent) return true
  let values = 0
  for (let at = 0; at < bytes.length && values <= mostValues; at++) {
    const byte = bytes[at]!
    if (byte === quote) at = stringEnd(bytes, at + 1)
    else if (byte === 0x7b || byte === 0x5b || byte === 0x2c) values++
  }
  return values > mostValues
}
