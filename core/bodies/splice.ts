// Edits members of a JSON object in its bytes. All other bytes stay as they are.
import type { Lens } from './lens.ts'

/** A piece of the bytes, and the text in its place. */
interface Replaced {
  start: number
  end: number
  text: string
}

/**
 * The object with members set to new JSON texts, as pieces to be sent one after the other. Values are replaced in
 * place; new members are put first; a member without a text is left out. Unchanged pieces are views of the lens's
 * bytes.
 */
export function withMembers(lens: Lens, changes: ReadonlyMap<string, string | undefined>): Buffer[] {
  const { kept, replaced } = leftOut(lens, changes)
  let added = ''
  for (const [key, text] of changes) {
    if (text === undefined) continue
    const member = lens.members.get(key)
    if (member) replaced.push({ start: member.valueStart, end: member.valueEnd, text })
    else added += `${added && ','}${JSON.stringify(key)}:${text}`
  }
  replaced.sort((a, b) => a.start - b.start)
  const open = lens.start + 1
  const parts = [lens.bytes.subarray(0, open)]
  if (added) parts.push(Buffer.from(kept > 0 ? `${added},` : added))
  let at = open
  for (const { start, end, text } of replaced) {
    parts.push(lens.bytes.subarray(at, start), Buffer.from(text))
    at = end
  }
  parts.push(lens.bytes.subarray(at))
  return parts
}

/** The pieces of the members that are left out, with the commas next to them, and how many members are kept. */
function leftOut(lens: Lens, changes: ReadonlyMap<string, string | undefined>): { kept: number; replaced: Replaced[] } {
  const { members } = lens
  const out = new Set([...changes].flatMap(([key, text]) => (text === undefined && members.has(key) ? [key] : [])))
  if (out.size === 0) return { kept: members.size, replaced: [] }
  const order = [...members].sort(([, a], [, b]) => a.keyStart - b.keyStart)
  const last = order.findLastIndex(([key]) => !out.has(key))
  const replaced: Replaced[] = []
  for (const [at, [key, { keyStart }]] of order.entries())
    if (at < last && out.has(key)) replaced.push({ start: keyStart, end: order[at + 1]![1].keyStart, text: '' })
  // What follows the last member that is kept goes with the comma before it.
  if (last < order.length - 1) {
    const start = last === -1 ? order[0]![1].keyStart : order[last]![1].valueEnd
    replaced.push({ start, end: order.at(-1)![1].valueEnd, text: '' })
  }
  return { kept: members.size - out.size, replaced }
}

/** The object with some values replaced by other bytes, in pieces. All the members must exist. */
export function withValues(lens: Lens, values: ReadonlyMap<string, readonly Buffer[]>): Buffer[] {
  const places = [...values].map(([key, pieces]) => ({ ...lens.members.get(key)!, pieces }))
  const parts: Buffer[] = []
  let at = 0
  for (const { valueStart, valueEnd, pieces } of places.sort((a, b) => a.valueStart - b.valueStart)) {
    parts.push(lens.bytes.subarray(at, valueStart), ...pieces)
    at = valueEnd
  }
  parts.push(lens.bytes.subarray(at))
  return parts
}

/** The object without one of its members, which must exist, and without the comma next to it. */
export function withoutMember(lens: Lens, key: string): Buffer {
  const { keyStart, valueEnd } = lens.members.get(key)!
  let before: number | undefined
  let after: number | undefined
  for (const member of lens.members.values()) {
    if (member.keyStart < keyStart) before = member.valueEnd
    else if (member.keyStart > keyStart) after ??= member.keyStart
  }
  const [start, end] = before !== undefined ? [before, valueEnd] : [keyStart, after ?? valueEnd]
  return Buffer.concat([lens.bytes.subarray(0, start), lens.bytes.subarray(end)])
}
