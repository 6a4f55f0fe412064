// The values of a configuration, from one file or several, and the place of every value.
import { createHash } from 'node:crypto'
import { below, propertyOf, showPlain } from '../../core/options/schema-check.ts'
import { redact, redactUrl } from './variables.ts'
import type { OptionSchema } from '../../core/options/schema.ts'
import type { Origin } from '../../core/options/schema-check.ts'
import type { Entry } from './document.ts'
import type { Position } from './position.ts'

/** A value whose text may not be shown: where it begins, its text, and what is shown instead. */
export interface Masked {
  readonly file: string
  readonly at: number
  readonly written: string
  readonly shown: string
}

/**
 * The values of the files of a configuration as one: its data, and for every JSON pointer into the data, its place in
 * the text of its file and its original text.
 */
export class Source {
  readonly value: unknown
  readonly #root: Entry

  constructor(root: Entry) {
    this.value = root.value
    this.#root = root
  }

  /**
   * The position of a value or its key. For a value that is not written, it is the position of the nearest value around
   * it.
   */
  position(pointer: string, on: 'key' | 'value'): Position {
    const entry = this.#find(pointer)
    return entry.in.position(on === 'key' ? (entry.key ?? entry.at) : entry.at)
  }

  /** The path of the file that has a value; that of the first file for a value that is not written, as a default. */
  file(pointer: string): string {
    return (this.#exact(pointer) ?? this.#root).in.file
  }

  /** Whether there is a value at a pointer. */
  has(pointer: string): boolean {
    return this.#exact(pointer) !== undefined
  }

  /** Renders a pointer for people: `channels.openai.base_url`, `keys[0]`. */
  subject(pointer: string): string {
    let entry: Entry | undefined = this.#root
    let subject = ''
    for (const part of partsOf(pointer)) {
      const child: Entry | undefined = entry?.children?.get(part)
      subject += Array.isArray(entry?.value)
        ? `[${child?.index ?? part}]`
        : `${subject === '' ? '' : '.'}${shownName(part)}`
      entry = child
    }
    return subject
  }

  /** What the schema check needs to know about the values below a pointer. */
  origin(base = ''): Origin {
    return {
      show: (pointer, value) => showPlain(pointer, this.#find(base + pointer).written ?? value),
      untyped: (pointer) => this.#find(base + pointer).untyped === true
    }
  }

  /** The pointers of values that could not be read. Each has been reported. */
  spoiled(): string[] {
    const found: string[] = []
    const visit = (entry: Entry, pointer: string): void => {
      if (entry.spoiled) found.push(pointer)
      entry.children?.forEach((child, name) => visit(child, below(pointer, name)))
    }
    visit(this.#root, '')
    return found
  }

  /**
   * The data below a pointer in a form that may be shown: variables as written, and secrets according to the schema
   * redacted. Adds to `hidden` the digest of each value that is shown as something else, by its pointer.
   */
  redacted(pointer: string, schema: OptionSchema, hidden: Map<string, string>): unknown {
    return redactEntry({ entry: this.#find(pointer), pointer }, schema, false, hidden)
  }

  /**
   * The values below a pointer whose text may not be shown, each with what is shown instead. Variables are shown as
   * they are written, without the default of a secret one.
   */
  masked(pointer: string, schema: OptionSchema): Masked[] {
    const found: Masked[] = []
    const visit = (entry: Entry, its: OptionSchema | undefined, around: boolean): void => {
      const secret = around || isSecretAt(its, entry)
      const items = its?.type === 'array' ? its.items : undefined
      for (const [name, child] of entry.children ?? [])
        visit(child, Array.isArray(entry.value) ? items : propertyOf(its, name).schema, secret)
      const written = entry.written ?? entry.value
      if (entry.children || written === null || written === '') return
      const shown = secret ? redact(written) : redactUrl(written)
      if (shown !== written)
        found.push({
          file: entry.in.file,
          at: entry.at,
          written: String(written as Scalar),
          shown: String(shown as Scalar)
        })
    }
    visit(this.#find(pointer), schema, false)
    return found
  }

  /**
   * The paths below `path` of secrets that stand in the file as they are. `asks` decides about each: `name` is its key,
   * and `group` whether it is secret only because it is in a map that is.
   */
  secrets(
    path: readonly string[],
    schema: OptionSchema | undefined,
    asks: (secret: { name: string; group: boolean }) => boolean
  ): string[][] {
    const found: string[][] = []
    const visit = (entry: Entry, at: string[], its: OptionSchema | undefined, group: boolean): void => {
      const secret = isSecretAt(its, entry)
      const items = its?.type === 'array' ? its.items : undefined
      for (const [name, child] of entry.children ?? [])
        visit(child, [...at, name], Array.isArray(entry.value) ? items : propertyOf(its, name).schema, group || secret)
      if (entry.children || typeof entry.value !== 'string' || entry.value === '') return
      const clear = (secret || group) && entry.written === undefined
      if (clear && asks({ name: at.at(-1)!, group })) found.push(at)
    }
    visit(this.#find(path.reduce<string>(below, '')), [...path], schema, false)
    return found
  }

  /** The value at a pointer, or the nearest around it. */
  #find(pointer: string): Entry {
    let entry = this.#root
    for (const part of partsOf(pointer)) {
      const child = entry.children?.get(part)
      if (!child) break
      entry = child
    }
    return entry
  }

  #exact(pointer: string): Entry | undefined {
    return partsOf(pointer).reduce<Entry | undefined>((entry, part) => entry?.children?.get(part), this.#root)
  }
}

/** A name of the file as messages show it. */
export function shownName(name: string): string {
  return /^[\w.@+:/-]{1,64}$/.test(name) ? name : JSON.stringify(name.slice(0, 64))
}

function partsOf(pointer: string): string[] {
  return pointer
    .split('/')
    .slice(1)
    .map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~'))
}

function redactEntry(
  { entry, pointer }: { entry: Entry; pointer: string },
  schema: OptionSchema | undefined,
  secret: boolean,
  hidden: Map<string, string>
): unknown {
  const isSecret = secret || isSecretAt(schema, entry)
  if (!entry.children) {
    const written = entry.written ?? entry.value
    const shown = isSecret ? redact(written) : redactUrl(written)
    if (shown !== entry.value) hidden.set(pointer, digestOf(entry.value))
    return shown
  }
  const redacted = (name: string, child: Entry, its: OptionSchema | undefined): unknown =>
    redactEntry({ entry: child, pointer: below(pointer, name) }, its, isSecret, hidden)
  const items = schema?.type === 'array' ? schema.items : undefined
  if (Array.isArray(entry.value)) return Array.from(entry.children, ([index, child]) => redacted(index, child, items))
  return Object.fromEntries(
    Array.from(entry.children, ([name, child]) => [name, redacted(name, child, propertyOf(schema, name).schema)])
  )
}

/** Whether a schema makes a secret of a value: of all of it, or of a text in the place of an object. */
function isSecretAt(schema: OptionSchema | undefined, { children }: Entry): boolean {
  return schema?.secret === true || (children === undefined && schema?.type === 'object' && 'orText' in schema)
}

/** A value without parts. */
type Scalar = string | number | bigint | boolean

function digestOf(value: unknown): string {
  return createHash('sha256')
    .update(String(value as Scalar))
    .digest('hex')
}
