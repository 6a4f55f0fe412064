// Signs reasoning, and knows its own signatures again: who sends reasoning back must not have changed it.
import { createHmac } from 'node:crypto'

/** No secret: whoever forges a signature here fools a simulator. */
const key = 'simulator'
const markLength = 12

function seal(mark: string, text: string): string {
  return createHmac('sha256', key).update(`${mark} ${text}`).digest('base64')
}

/** A signature for a text. `mark`: twelve characters that tell answers apart. */
export function sign(mark: string, text: string): string {
  const short = mark.slice(0, markLength).padEnd(markLength, '0')
  return Buffer.from(`${short}${seal(short, text)}`).toString('base64')
}

/** Whether the signature is one that the simulator gave to this text. */
export function isSigned(text: string, signature: unknown): boolean {
  if (typeof signature !== 'string') return false
  const opened = Buffer.from(signature, 'base64').toString('latin1')
  const mark = opened.slice(0, markLength)
  return sign(mark, text) === signature
}
