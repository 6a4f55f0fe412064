// Estimates from the structure of a body how much memory its translation takes, before anything is parsed.
import { stringEnd } from '../../core/contract/contract.ts'

/** Bytes of memory per byte of a body: as text, as values that contain the text, and as the result. */
const ofByte = 3
/**
 * Bytes of memory for the values of a body, per object, per member of one, per list, and per value after a comma, from
 * the client's form to the upstream's. Measured for the worst cases between all protocols: conversations of many short
 * messages, and lists of empty lists.
 */
const ofMember = 320
const ofElement = 40

const quote = 0x22

/** About the most bytes of memory that the translation of a JSON body takes. The count stops above `most`. */
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

/** Events up to this many bytes are translated without examining their structure. */
const smallEvent = 64 * 1024
/** The most values in one event. More would block the event loop for too long. */
const mostValues = 50_000

/** The most bytes of an event that is translated: a picture of 6 MB, which is the only thing that large. */
const largestEvent = 8 * 1024 * 1024

/** Whether an event is too large, or has too many values, to be translated at once. */
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
