// The texts of the files of a configuration as people may see them: as they are written, but for secrets in clear.
import { isAlias, isScalar, isSeq, parseDocument, visit } from 'yaml'
import type { Document, Scalar } from 'yaml'
import type { OptionSchema, OptionSchemas } from '../../core/options/schema.ts'
import type { ConfigText } from '../../core/catalogue/settings.ts'
import { below } from '../../core/options/schema-check.ts'
import type { Masked, Source } from './source.ts'

/** What stands in the place of a secret. */
export const mask = '[redacted]'

/** A file as it may be shown. */
export interface MaskedText {
  readonly name: string
  readonly file: string
  readonly text: string
  /** How many secrets are masked in it. What has one must not be written back. */
  readonly masked: number
}

/** A shorter text may stand elsewhere without being the secret. */
const leastKnown = 8

/**
 * Masks the secrets of a configuration that has no problems: those that the schemas know, the same text wherever else
 * it stands (in comments, in anchors), and in comments and `x-` sections what stands behind the name of a secret.
 */
export function maskedTexts(texts: readonly ConfigText[], source: Source, schemas: OptionSchemas): MaskedText[] {
  const sections = Object.keys(source.value as object).filter((name) => schemas[name])
  const found = sections.flatMap((name) => source.masked(below('', name), schemas[name]!))
  const names = new Set<string>()
  for (const schema of Object.values(schemas)) collectNames(schema, names)
  const known = [...new Set(found.map(clearPart))].filter((text) => text.length >= leastKnown)
  return texts.map(({ name, file, text }) => {
    const own = found.filter((one) => one.file === file)
    const scalars = new Scalars(text)
    const cuts = [...own.flatMap((one) => scalars.cut(one)), ...scalars.anchored(names)]
    let masked = cuts.length
    let shown = replaced(text, cuts)
    for (const secret of known.toSorted((a, b) => b.length - a.length)) {
      const parts = shown.split(secret)
      masked += parts.length - 1
      shown = parts.join(mask)
    }
    shown = shown.replace(remark, (whole, before: string, name: string, between: string, value: string) => {
      if (!names.has(name) || value.startsWith(mask)) return whole
      masked++
      return `${before}${name}${between}${mask}`
    })
    return { name, file, text: shown, masked }
  })
}

/** A name and a long value behind it in a comment: `# credential: sk-live-…`. */
const remark = /((?:^|\s)#[^\n]*?\b)([a-z_]+)(["']?\s*[:=]\s*["']?)((?!\$\{|https?:)[^\s"',}]{12,})/g

/** Of a value that is masked, the part that is the secret itself. */
function clearPart({ written }: Masked): string {
  return /^\$\{[A-Za-z_][A-Za-z0-9_]*:-([^}]*)\}$/.exec(written)?.[1] ?? written
}

/** A part of a text, and what stands there instead. */
interface Cut {
  readonly from: number
  readonly to: number
  readonly shown: string
}

/** Replaces parts of a text. Of two that overlap, the first in the text counts. */
function replaced(text: string, cuts: readonly Cut[]): string {
  let result = ''
  let at = 0
  for (const { from, to, shown } of cuts.toSorted((a, b) => a.from - b.from)) {
    if (from < at) continue
    result += text.slice(at, from) + shown
    at = to
  }
  return result + text.slice(at)
}

/** The scalars of one file, by where they begin. */
class Scalars {
  readonly #text: string
  readonly #document: Document
  readonly #byStart = new Map<number, Scalar>()

  constructor(text: string) {
    this.#text = text
    this.#document = parseDocument(text, { version: '1.2', schema: 'core', merge: true, uniqueKeys: false })
    visit(this.#document, {
      Scalar: (_key, node) => void (node.range && this.#byStart.set(node.range[0], node)),
      Alias: (_key, node) => {
        const target = node.resolve(this.#document)
        if (node.range && isScalar(target)) this.#byStart.set(node.range[0], target)
      }
    })
  }

  cut({ at, shown }: Masked): Cut[] {
    const node = this.#byStart.get(at)
    return node ? [this.#cutOf(node, shown)] : []
  }

  /** The scalars of `x-` sections that stand below the name of a secret, where they are no variables. */
  anchored(names: ReadonlySet<string>): Cut[] {
    const cuts: Cut[] = []
    visit(this.#document, {
      Pair: (_key, pair, path) => {
        if (!isScalar(pair.key) || isAlias(pair.value)) return
        const values = (isSeq(pair.value) ? pair.value.items : [pair.value]).filter((one) => isScalar(one))
        if (values.length === 0) return
        const top = path.map((one) => (one as { key?: unknown }).key).find((key) => isScalar(key))
        const section = (isScalar(top) ? top : pair.key).source ?? ''
        if (!section.startsWith('x-') || !names.has(pair.key.source ?? '')) return
        for (const value of values) {
          if (typeof value.value !== 'string' || value.value === '') continue
          if (!/^\$\{[A-Za-z_][A-Za-z0-9_]*\}$/.test(value.value)) cuts.push(this.#cutOf(value, mask))
        }
      }
    })
    return cuts
  }

  #cutOf(node: Scalar, shown: string): Cut {
    const [from, to] = node.range!
    // A block of text ends with its line.
    const end = this.#text.slice(from, to).endsWith('\n') ? '\n' : ''
    return { from, to, shown: JSON.stringify(shown) + end }
  }
}

/** The names of the members that are secret, anywhere in a schema. */
function collectNames(schema: OptionSchema, names: Set<string>, name?: string): void {
  // What may be a text in the place of a map is a secret then, as in the reading of the file.
  const secret = schema.secret === true || (schema.type === 'object' && 'orText' in schema)
  if (secret && name !== undefined) names.add(name)
  if (schema.type === 'array') collectNames(schema.items, names, name)
  if (schema.type !== 'object') return
  if ('additionalProperties' in schema) collectNames(schema.additionalProperties, names, name)
  else for (const [member, inner] of Object.entries(schema.properties)) collectNames(inner, names, member)
}
