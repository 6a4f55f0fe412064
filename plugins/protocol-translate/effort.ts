// How much memory it takes to translate a body, told by its structure before anything is made of it.

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
const backslash = 0x5c

/** Bytes of memory that translating a JSON body takes, about and at most; more than `most` is not told exactly. */
export function effortOf(bytes: Buffer, most: number): number {
  let effort = bytes.length * ofByte
  for (let at = 0; at < bytes.length && effort <= most; at++) {
    switch (bytes[at]!) {
      case quote:
        at = endOfText(bytes, at)
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

/** The quote that ends a text; the end of the bytes when none does. */
function endOfText(bytes: Buffer, from: number): number {
  for (let end = bytes.indexOf(quote, from + 1); end !== -1; end = bytes.indexOf(quote, end + 1)) {
    let escapes = 0
    while (bytes[end - 1 - escapes] === backslash) escapes++
    if (escapes % 2 === 0) return end
  }
  return bytes.length
}
