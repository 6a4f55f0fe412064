// Reads from a file with problems at least where its gateway is: the sections `admin` and `store`.
import { dirname, resolve } from 'node:path'
import { checkerOf } from '../core/options/schema-check.ts'
import type { OptionValues } from '../core/options/schema.ts'
import type { Settings } from '../core/catalogue/settings.ts'
import { Files } from './files.ts'
import { fileShape } from './shape.ts'
import { parseSource } from './source.ts'
import { decode } from './text.ts'
import type { Environment } from './variables.ts'

const { admin, store } = fileShape
const shape = { admin, store } as const

/** Where a gateway is, and which store it has. */
export interface Address {
  settings: { admin: Settings['admin']; store: { sqlite: string } }
}

/** Undefined when the file is no YAML, or one of the two sections has a problem. */
export function readAddress(file: string, env: Environment): Address | undefined {
  const value = readSections(file, env, /^\/(admin|store)(\/|$)/)
  if (!value) return undefined
  const { admin: given, store: kept } = value
  return {
    settings: { admin: given === false ? undefined : given, store: { sqlite: resolve(dirname(file), kept.sqlite) } }
  }
}

/**
 * Where the admin listener is, for whoever has a token of their own: what else the sections have is not needed, so its
 * variables may be unset. Undefined when there is none, or when the file does not say it.
 */
export function readListener(file: string, env: Environment): { host: string; port: number } | undefined {
  const value = readSections(file, env, /^\/admin(\/(host|port)|$)/)
  return value && value.admin !== false ? value.admin : undefined
}

/** The sections of a file; undefined when there is a problem at a pointer that is needed. */
function readSections(file: string, env: Environment, needed: RegExp): OptionValues<typeof shape> | undefined {
  const { bytes } = new Files().read(file)
  const text = bytes && decode(bytes, () => {})
  const source = text === undefined ? undefined : parseSource(text, env, () => {})
  if (!source) return undefined
  const sections = Object.fromEntries(
    Object.entries(source.value as object).filter(([name]) => Object.hasOwn(shape, name))
  )
  const { value, faults } = checkerOf(shape)(sections, source.origin())
  return [...faults.map(({ pointer }) => pointer), ...source.spoiled()].some((pointer) => needed.test(pointer))
    ? undefined
    : value
}
