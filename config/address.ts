// Reads from a file with problems at least where its gateway is: the sections `admin` and `store`.
import { dirname } from 'node:path'
import { checkerOf } from '../core/options/schema-check.ts'
import type { OptionValues } from '../core/options/schema.ts'
import type { Settings } from '../core/catalogue/settings.ts'
import type { NamedPlace } from '../core/catalogue/store-place.ts'
import { readFiles } from './files/includes.ts'
import { fileShape } from './shape.ts'
import { namedPlace } from './sections/store-place.ts'
import type { Environment } from './files/variables.ts'

const { admin, store } = fileShape
const shape = { admin, store } as const

/** Where a gateway is, and which store it has. */
export interface Address {
  settings: { admin: Settings['admin']; store: NamedPlace }
}

/**
 * Undefined when the file is no YAML, or one of the two sections has a problem. A section that stands in no file that
 * could be read has its defaults, so that a damaged file elsewhere does not keep anybody from a rollback: whoever asks
 * the gateway at the address makes sure that it has the store.
 */
export function readAddress(file: string, env: Environment): Address | undefined {
  const found = readSections(file, env, /^\/(admin|store)(\/|$)/)
  if (!found) return undefined
  const { admin: given, store: kept } = found.value
  const place = namedPlace(kept, found.folder)
  return place && { settings: { admin: given === false ? undefined : given, store: place } }
}

/**
 * Where the admin listener is, for whoever has a token of their own: what else the sections have is not needed, so its
 * variables may be unset. Undefined when there is none, or when the files do not say it: a token is sent to no address
 * that is only guessed.
 */
export function readListener(file: string, env: Environment): { host: string; port: number } | undefined {
  const found = readSections(file, env, /^\/admin(\/(host|port)|$)/)
  if (!found || (!found.whole && !found.says('admin'))) return undefined
  return found.value.admin === false ? undefined : found.value.admin
}

/** The sections as they are in the files that could be read. */
interface Sections {
  value: OptionValues<typeof shape>
  /** Whether a section stands in one of these files. */
  says(name: keyof typeof shape): boolean
  /** Whether all files could be read. */
  whole: boolean
  /** The folder to which the path of the store is relative. */
  folder: string
}

/** Undefined when gateway.yaml cannot be read, or there is a problem at a pointer that is needed. */
function readSections(file: string, env: Environment, needed: RegExp): Sections | undefined {
  const { source, whole } = readFiles(file, env)
  if (!source) return undefined
  const sections = Object.fromEntries(
    Object.entries(source.value as object).filter(([name]) => Object.hasOwn(shape, name))
  )
  const { value, faults } = checkerOf(shape)(sections, source.origin())
  const faulty = [...faults.map(({ pointer }) => pointer), ...source.spoiled()]
  if (faulty.some((pointer) => needed.test(pointer))) return undefined
  const says = (name: string): boolean => Object.hasOwn(sections, name)
  return { value, says, whole, folder: dirname(source.file('/store/sqlite')) }
}
