// Reads from a file with problems at least where its gateway is: the sections `admin` and `store`.
import { dirname, resolve } from 'node:path'
import { checkerOf } from '../core/options/schema-check.ts'
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
  const { bytes } = new Files().read(file)
  const text = bytes && decode(bytes, () => {})
  const source = text === undefined ? undefined : parseSource(text, env, () => {})
  if (!source) return undefined
  const sections = Object.fromEntries(
    Object.entries(source.value as object).filter(([name]) => Object.hasOwn(shape, name))
  )
  const { value, faults } = checkerOf(shape)(sections, source.origin())
  if (faults.length > 0 || source.spoiled().some((pointer) => /^\/(admin|store)(\/|$)/.test(pointer))) return undefined
  const { admin: given, store: kept } = value
  return {
    settings: { admin: given === false ? undefined : given, store: { sqlite: resolve(dirname(file), kept.sqlite) } }
  }
}
