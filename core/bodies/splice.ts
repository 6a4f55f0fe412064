// Edits members of a JSON object in its bytes. All other bytes stay as they are.
import type { Lens } from './lens.ts'

/**
 * The object with members set to new JSON texts, as pieces to be sent one after the other. Values are replaced in
 * place; new members are put first. Unchanged pieces are views of the lens's bytes.
 */
export function withMembers(lens: Lens, changes: ReadonlyMap<string, string>): Buffer[] {
  const replaced: { start: number; end: number; text: string }[] = []
  let added = ''
  for (const [key, text] of changes) {
    const member = lens.members.get(key)
    if (member) replaced.push({ start: member.valueStart, end: member.valueEnd, text })
    else added += `${added && ','}${JSON.stringify(key)}:${text}`
  }
  replaced.sort((a, b) => a.start - b.start)
  const open = lens.start + 1
  const parts = [lens.bytes.subarray(0, open)]
  if (added) parts.push(Buffer.from(lens.members.size > 0 ? `${added},` : added))
  let at = open
  for (const { start, end, text } of replaced) {
    parts.push(lens.bytes.subarray(at, start), Buffer.from(text))
    at = end
  }
  parts.push(lens.bytes.subarray(at))
  return parts
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
