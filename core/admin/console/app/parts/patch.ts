// What a form has changed of a thing, as the API takes it: a JSON merge patch.
import type { Values } from './form.ts'

/** Members that the API merges; it replaces all others whole. */
const merged: ReadonlySet<string> = new Set(['tags', 'limits'])

/** The patch that makes `after` of `before`: null takes a member out. */
export function patchOf(before: Values, after: Values): Values {
  const names = new Set([...Object.keys(before), ...Object.keys(after)])
  const changes = [...names].flatMap((name): [string, unknown][] => {
    const [was, is] = [before[name], after[name]]
    if (JSON.stringify(was) === JSON.stringify(is)) return []
    if (is === undefined) return [[name, null]]
    return [[name, merged.has(name) && isMap(was) && isMap(is) ? patchOf(was, is) : is]]
  })
  return Object.fromEntries(changes)
}

function isMap(value: unknown): value is Values {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
