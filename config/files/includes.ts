// Reads gateway.yaml with the files that it includes, and joins what they say as if it stood in one.
import { createHash } from 'node:crypto'
import { realpathSync } from 'node:fs'
import { basename, dirname, isAbsolute, join, normalize } from 'node:path'
import { checkerOf, isMap } from '../../core/options/schema-check.ts'
import { parseFile } from './document.ts'
import { Files } from './files.ts'
import { placeOf } from './position.ts'
import { shownName, Source } from './source.ts'
import { decode } from './text.ts'
import type { OptionSchema } from '../../core/options/schema.ts'
import type { ConfigText } from '../../core/catalogue/settings.ts'
import type { Entry, Parsing } from './document.ts'
import type { Position } from './position.ts'
import type { Finding } from '../report.ts'
import type { Environment } from './variables.ts'

export const includeShape = {
  type: 'array',
  default: [],
  examples: [['channels.yaml', 'tenants/']],
  items: {
    type: 'string',
    minLength: 1,
    description:
      'A file, or a folder for all its files that end in .yaml or .yml; relative to the file that includes it.'
  },
  description:
    'Further files of the configuration. Channels, models, tenants, keys and plugins may stand in any of them.'
} as const satisfies OptionSchema

const shape = { include: includeShape } as const

/** The sections whose entries may stand in several files. Any other section stands in one. */
const joined: ReadonlySet<string> = new Set(['channels', 'models', 'tenants', 'plugins', 'keys'])

/** Characters that would spoil the lines in which a path is shown, or stand for bytes that are not in UTF-8. */
const unshowable = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\ufffd]/u

const unshowableWords = 'has a character that no name of an included file may have'

/** Bounds of all files together, in files and in bytes; and how deep files may include files. */
const mostFiles = 10_000
const mostBytes = 16 * 1024 * 1024
const deepest = 16

/** The entry that includes a file. */
interface Including {
  readonly at: Position
  /** What the entry is called in messages: `include[0]`. */
  readonly subject: string
}

/** The files of a configuration as they were read at one time. */
export interface Reading {
  /** The path of gateway.yaml, as it was given. */
  readonly file: string
  /** What could be read of the files, as one; undefined when gateway.yaml itself could not. */
  readonly source: Source | undefined
  /** Whether all files could be read. */
  readonly whole: boolean
  /** The files in the order of reading, gateway.yaml first. */
  readonly texts: readonly ConfigText[]
  /** The included folders, relative to that of gateway.yaml unless they were given as absolute paths. */
  readonly folders: readonly string[]
  readonly findings: readonly Finding[]
  readonly warnings: readonly Finding[]
  readonly files: Files
}

/** Reads a file and what it includes. It never throws. `files` collects what was read. */
export function readFiles(file: string, env: Environment, files = new Files()): Reading {
  const reader = new FilesReader(file, env, files)
  reader.read(basename(file), undefined)
  return reader.reading()
}

/**
 * The hash of a configuration, in hexadecimal: the SHA-256 of its file, or with included files, of what `sha256sum`
 * prints for all of them in the folder of the first.
 */
export function hashOf(texts: readonly ConfigText[]): string {
  const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex')
  const [first] = texts
  if (texts.length === 1) return sha256(first!.text)
  return sha256(texts.map(({ name, text }) => `${sha256(text)}  ${name}\n`).join(''))
}

/** The path of what has a name relative to the folder of `file`, unless the name is an absolute path. */
export function pathBeside(file: string, name: string): string {
  return isAbsolute(name) ? name : join(dirname(file), name)
}

class FilesReader {
  readonly #file: string
  readonly #files: Files
  readonly #parsing: Parsing
  readonly #findings: Finding[] = []
  readonly #warnings: Finding[] = []
  readonly #texts: ConfigText[] = []
  readonly #folders: string[] = []
  readonly #roots: Entry[] = []
  /** What included each file, by its real path; undefined for gateway.yaml. */
  readonly #included = new Map<string, Including | undefined>()
  /** The real paths of the files that are being read, outermost first, with the paths to show. */
  readonly #open = new Map<string, string>()
  #whole = true
  /** The bytes of all files that were read. */
  #length = 0
  /** Set when a bound was met, so that no more is read. */
  #full = false

  constructor(file: string, env: Environment, files: Files) {
    this.#file = file
    this.#files = files
    this.#parsing = { env, aliased: 0, complain: (at, message) => void this.#findings.push({ at, message }) }
  }

  reading(): Reading {
    return {
      file: this.#file,
      source: this.#roots.length === 0 ? undefined : new Source(this.#join()),
      whole: this.#whole,
      texts: this.#texts,
      folders: this.#folders,
      findings: this.#findings,
      warnings: this.#warnings,
      files: this.#files
    }
  }

  /** Reads the file with a name that is relative to the folder of gateway.yaml. `by` includes it. */
  read(name: string, by: Including | undefined): void {
    if (this.#full) return
    const file = by ? pathBeside(this.#file, name) : this.#file
    const { bytes, fault } = this.#files.read(file)
    if (!bytes) return this.#refuse(by, by ? `${file}: ${faultOf(fault, file)}` : mainFaultOf(fault))
    const real = realPathOf(file)
    if (this.#open.has(real))
      return this.#refuse(by, `a file cannot include itself: ${[...this.#open.values(), file].join(' includes ')}`)
    const before = this.#included.get(real)
    if (before) return this.#refuse(by, `${file} is included in ${placeOf(before.at)} already: include it once`)
    this.#included.set(real, by)
    this.#length += bytes.length
    this.#full = this.#included.size > mostFiles || this.#length > mostBytes
    if (this.#full)
      return this.#refuse(by, `with ${file} there are more than ${mostFiles} files, or than 16 MiB in all`)
    const text = decode(bytes, file, this.#parsing.complain)
    if (text !== undefined) this.#texts.push({ name, file, text })
    const root = text === undefined ? undefined : parseFile(text, file, this.#parsing)
    if (!root) {
      this.#whole = false
      return
    }
    this.#roots.push(root)
    this.#open.set(real, file)
    this.#include(dirname(name), new Source(root))
    this.#open.delete(real)
  }

  /** Reads what a file in a folder includes. */
  #include(folder: string, source: Source): void {
    const { include } = source.value as { include?: unknown }
    if (include === undefined) return
    const spoiled = new Set(source.spoiled())
    const { value, faults } = checkerOf(shape)({ include }, source.origin())
    for (const { pointer, message } of faults) {
      const by = { at: source.position(pointer, 'value'), subject: source.subject(pointer) }
      if (spoiled.has(pointer)) this.#whole = false
      else this.#refuse(by, message)
    }
    if (!Array.isArray(value.include)) return
    const faulty = new Set(faults.map(({ pointer }) => pointer))
    for (const [index, written] of value.include.entries()) {
      const pointer = `/include/${index}`
      const by = { at: source.position(pointer, 'value'), subject: source.subject(pointer) }
      if (spoiled.has(pointer)) this.#whole = false
      else if (!faulty.has(pointer)) this.#take(written, folder, by)
    }
  }

  /** Reads a file, or all files of a folder. */
  #take(written: string, folder: string, by: Including): void {
    if (unshowable.test(written)) return this.#refuse(by, `${JSON.stringify(written)} ${unshowableWords}`)
    if (this.#open.size > deepest) return this.#refuse(by, `files include files more than ${deepest} deep`)
    const name = (isAbsolute(written) ? normalize(written) : join(folder, written)).replace(/(?<=.)\/+$/, '')
    const path = pathBeside(this.#file, name)
    const names = this.#files.list(path)
    if (!names) return this.read(name, by)
    this.#folders.push(name)
    if (names.length > mostFiles)
      return this.#refuse(by, `${path} has ${names.length} files, and ${mostFiles} are the most`)
    const { at, subject } = by
    if (names.length === 0)
      this.#warnings.push({ at, message: `${subject}: ${path} has no file that ends in .yaml or .yml` })
    for (const one of names) {
      if (unshowable.test(one)) this.#refuse(by, `in ${path}, ${JSON.stringify(one)} ${unshowableWords}`)
      else this.read(join(name, one), by)
    }
  }

  /** Reports why a file is not read. */
  #refuse(by: Including | undefined, message: string): void {
    this.#whole = false
    this.#findings.push(by ? { at: by.at, message: `${by.subject}: ${message}` } : { message })
  }

  /** Joins the files that were read. */
  #join(): Entry {
    const [main] = this.#roots as [Entry]
    const sections = new Map<string, Entry[]>()
    for (const root of this.#roots)
      for (const [name, section] of root.children!) {
        if (name.startsWith('x-') || (name === 'include' && root !== main)) continue
        if (!sections.has(name)) sections.set(name, [])
        sections.get(name)!.push(section)
      }
    const children = new Map(Array.from(sections, ([name, parts]) => [name, this.#section(name, parts)]))
    return { ...main, value: dataOf(children), children }
  }

  /** A section that stands in one file or more. */
  #section(name: string, parts: readonly Entry[]): Entry {
    // An empty section, with all its lines commented out, says nothing.
    const filled = parts.filter(({ value }) => value !== null)
    const [first = parts[0]!, ...others] = filled
    if (others.length === 0) return first
    if (!joined.has(name)) {
      for (const other of others) this.#twice(name, first, other, 'this section stands in one file')
      return { ...first, spoiled: true }
    }
    const isList = name === 'keys'
    // The check of the shape reports what is neither.
    const odd = filled.find(({ value }) => (isList ? !Array.isArray(value) : !isMap(value)))
    if (odd) return odd
    const children = new Map<string, Entry>()
    for (const part of filled)
      for (const [key, child] of part.children!) {
        if (isList) children.set(String(children.size), { ...child, index: Number(key) })
        else if (!children.has(key)) children.set(key, child)
        else this.#twice(`${name}.${shownName(key)}`, children.get(key)!, child, 'a name stands in one file')
      }
    const value = isList ? Array.from(children.values(), (child) => child.value) : dataOf(children)
    return { ...first, value, children }
  }

  #twice(subject: string, first: Entry, second: Entry, rule: string): void {
    const place = placeOf(first.in.position(first.key ?? first.at))
    const at = second.in.position(second.key ?? second.at)
    this.#findings.push({ at, message: `${subject}: stands in ${place} already: ${rule}` })
  }
}

function dataOf(children: ReadonlyMap<string, Entry>): object {
  const data: Record<string, unknown> = Object.create(null)
  for (const [name, child] of children) data[name] = child.value
  return data
}

const missing = 'there is no such file'

function mainFaultOf(fault: string): string {
  return fault === missing ? `${fault}: name one with --config` : fault
}

function faultOf(fault: string, file: string): string {
  if (fault !== missing) return fault
  const words = `${missing} or folder`
  return file.includes('*') ? `${words}: * stands for nothing here, name the folder for all its YAML files` : words
}

function realPathOf(file: string): string {
  try {
    return realpathSync(file)
  } catch {
    // The file was removed after it was read.
    return file
  }
}
