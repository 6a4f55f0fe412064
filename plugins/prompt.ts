// Measures what a request says to the model, for estimates: how much text, and how many pictures, sounds and files. It
// does not parse the body.
import type { RequestBody } from '../core/bodies/body.ts'

/** The tokens counted for a picture, sound or file of any size, which is what a picture in low detail takes. */
export const mediaTokens = 85

/** The members that a model reads, in all protocols. Other members are settings, which cost nothing. */
const members = [
  'messages',
  'tools',
  'functions',
  'response_format',
  'input',
  'instructions',
  'system',
  'prompt',
  'suffix',
  'contents',
  'generateContentRequest',
  'systemInstruction',
  'system_instruction',
  'documents',
  'query'
] as const
/**
 * Keys of strings that contain or point to a picture, sound or file, unless the string is recognizably text: tools have
 * members with these names too.
 */
const mediaKeys: ReadonlySet<string> = new Set([
  'url',
  'data',
  'file_data',
  'file_id',
  'file_url',
  'image_url',
  'file_uri',
  'fileUri',
  'b64_json'
])
/**
 * A key of pictures that a model has made, but also of tool results. A string of so many bytes that shows no sign of
 * text counts as a picture.
 */
const resultKey = 'result'
const resultBytes = 1024
/** Keys of strings that are the same in every request. */
const silentKeys: ReadonlySet<string> = new Set([
  'type',
  'role',
  'detail',
  'format',
  'media_type',
  'mime_type',
  'mimeType'
])

/**
 * The most bytes that are examined one by one, with each string counted as so many of them. The rest of a body is taken
 * to be like its beginning.
 */
const mostWork = 256 * 1024
const workOfString = 64
/** Bytes of a string that are examined before indexOf searches for its end, and the most spaces before a colon. */
const nearBytes = 256
const mostSpaces = 64
/** The bytes of a string that are examined for escapes. */
const sampleBytes = 4096
/** The bytes that a number counts as. Lists of numbers are lists of tokens. */
const numberBytes = 4
const quote = 0x22
const backslash = 0x5c

/** UTF-8 bytes of text, and the number of pictures, sounds and files. */
export interface Prompt {
  text: number
  media: number
}

/**
 * Measures the body of a request. `exactly`: escapes in strings count as the characters they stand for, which takes a
 * little longer.
 */
export function promptOf({ bytes, lens }: RequestBody, exactly: boolean): Prompt {
  const prompt = { text: 0, media: 0 }
  let found = false
  for (const name of members) {
    const value = lens.slice(name)
    if (!value) continue
    found = true
    read(value, prompt, exactly)
  }
  return found ? prompt : { text: bytes.length, media: 0 }
}

/** Adds up what a JSON value says. */
function read(value: Buffer, prompt: Prompt, exactly: boolean): void {
  const { length } = value
  const before = prompt.text
  let key = ''
  let work = 0
  for (let at = 0; at < length; work++) {
    if (work > mostWork) {
      prompt.text += Math.round(((prompt.text - before) * (length - at)) / at)
      return
    }
    const byte = value[at]!
    if (byte !== quote) {
      const digit = byte >= 0x30 && byte <= 0x39
      if (digit) prompt.text += numberBytes
      at++
      if (digit) while (at < length && isNumeric(value[at]!)) at++
      continue
    }
    const from = at + 1
    const end = stringEnd(value, from, mostWork - work)
    work += workOfString + Math.min(end - from, nearBytes)
    at = end + 1
    let next = at
    while (value[next]! <= 0x20 && next - at < mostSpaces) next++
    if (value[next] === 0x3a) {
      key = end - from <= 32 ? value.toString('latin1', from, end) : ''
      at = next + 1
      continue
    }
    if (isMedia(key, value, from, end)) prompt.media++
    else if (!silentKeys.has(key)) prompt.text += exactly ? said(value, from, end) : end - from
    key = ''
  }
}

function isMedia(key: string, value: Buffer, from: number, end: number): boolean {
  return (mediaKeys.has(key) || (key === resultKey && end - from >= resultBytes)) && !isText(value, from, end)
}

/**
 * Whether a string has something near its beginning that neither base64 nor an address has: a space, a quote, or a
 * letter beyond ASCII.
 */
function isText(bytes: Buffer, from: number, end: number): boolean {
  for (let at = from, near = Math.min(end, from + nearBytes); at < near; at++) {
    const byte = bytes[at]!
    if (byte === 0x20 || byte >= 0x80 || (byte === backslash && bytes[at + 1] === quote)) return true
    if (byte === backslash) at++
  }
  return false
}

function isNumeric(byte: number): boolean {
  return (
    (byte >= 0x30 && byte <= 0x39) || byte === 0x2e || byte === 0x65 || byte === 0x45 || byte === 0x2b || byte === 0x2d
  )
}

/** The position of the closing quote, or the end of the bytes when it is not found with that much work. */
function stringEnd(bytes: Buffer, from: number, work: number): number {
  let at = from
  for (const near = Math.min(bytes.length, from + nearBytes); at < near; at++) {
    if (bytes[at] === quote) return at
    if (bytes[at] === backslash) at++
  }
  for (at = bytes.indexOf(quote, at); at !== -1; at = bytes.indexOf(quote, at + 1)) {
    let escapes = 0
    while (escapes < nearBytes * nearBytes && at - escapes > from && bytes[at - escapes - 1] === backslash) escapes++
    if (escapes % 2 === 0) return at
    work -= workOfString + escapes
    if (work < 0) break
  }
  return bytes.length
}

/** The bytes of a string without its escapes, estimated from its beginning. */
function said(bytes: Buffer, from: number, end: number): number {
  const length = end - from
  const sampled = Math.min(length, sampleBytes)
  let spelling = 0
  for (let at = from; at < from + sampled; at++) {
    if (bytes[at] !== backslash) continue
    const wide = bytes[at + 1] === 0x75
    spelling += wide ? 3 : 1
    at += wide ? 5 : 1
  }
  return sampled === 0 ? 0 : Math.max(1, Math.round(length * (1 - spelling / sampled)))
}
