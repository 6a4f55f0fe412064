// Signs reasoning and checks the signatures, as clients must send reasoning back unchanged.
import { createHmac } from 'node:crypto'

/** This is no secret: a forged signature would only deceive a simulator. */
const key = 'simulator'
const markLength = 12

function seal(mark: string, text: string): string {
  return createHmac('sha256', key).update(`${mark} ${text}`).digest('base64')
}

/** A signature for a text. `mark`: twelve characters that differ between answers. */
export function sign(mark: string, text: string): string {
  const short = mark.slice(0, markLength).padEnd(markLength, '0')
  return Buffer.from(`${short}${seal(short, text)}`).toString('base64')
}

/** Whether the simulator made this signature for this text. */
export function isSigned(text: string, signature: unknown): boolean {
  if (typeof signature !== 'string') return false
  const opened = Buffer.from(signature, 'base64').toString('latin1')
  const mark = opened.slice(0, markLength)
  return sign(mark, text) === signature
}
