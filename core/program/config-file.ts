// gateway.yaml and the files that it includes, for an editor: shown without secrets, checked as text, and written.
import { hashOf } from '../../config/files/includes.ts'
import type { Reading } from '../../config/files/includes.ts'
import { contentWith, Files } from '../../config/files/files.ts'
import type { Content } from '../../config/files/files.ts'
import { editorSchema } from '../../config/reference/editor-schema.ts'
import { schemasOf } from '../../config/load.ts'
import { mask, maskedTexts } from '../../config/files/masked.ts'
import type { MaskedText } from '../../config/files/masked.ts'
import { declaredPlugins } from '../../config/sections/plugins.ts'
import type { Config, Problem } from '../catalogue/settings.ts'
import { ConfigError } from './configuration.ts'
import type { ConfigReader, Trust } from './configuration.ts'
import { inWords } from './changes.ts'
import type { Reloader } from './reload.ts'
import { replaceAndReload } from './replacement.ts'
import type { ReplacedReload, Wanted } from './replacement.ts'

/** The files on disk. */
export interface ShownFiles {
  /** What they are together; null when not all can be read. It is named again when they are written. */
  readonly hash: string | null
  /** Without secrets. Empty when the files have problems: what of them is secret is then not known. */
  readonly files: readonly MaskedText[]
  readonly problems: readonly Problem[]
}

/** What a text was found to be. */
export interface Checked {
  readonly hash: string | null
  readonly problems: readonly Problem[]
  readonly warnings: readonly Problem[]
  /** What a reload would change, in words. */
  readonly changes: readonly string[]
}

/** A text for one of the files, by its name as {@link ShownFiles} has it. */
export interface NewText {
  readonly name: string
  readonly text: string
}

/** Why nothing was written, before anything was tried. */
export class NotWritten extends Error {
  override readonly name = 'NotWritten'
  readonly code: 'config_changed' | 'config_masked' | 'config_unknown_file' | 'config_problems'
  readonly problems: readonly Problem[]

  constructor(code: NotWritten['code'], message: string, problems: readonly Problem[] = []) {
    super(message)
    this.code = code
    this.problems = problems
  }
}

/** What {@link ConfigFile} needs. */
export interface ConfigFileParts {
  readonly reader: Pick<ConfigReader, 'lookAt' | 'reading' | 'plugins'>
  readonly reloader: Pick<Reloader, 'preview' | 'alone'>
  /** The configuration in use. */
  current(): Pick<Config, 'file' | 'hash'>
}

/** The files of the configuration. */
export class ConfigFile {
  readonly #parts: ConfigFileParts

  constructor(parts: ConfigFileParts) {
    this.#parts = parts
  }

  /** The JSON Schema of gateway.yaml (draft-07), with the options of the plugins that the chain may name. */
  schema(): object {
    return editorSchema(this.#parts.reader.plugins)
  }

  /** Shows the files on disk. */
  async show(): Promise<ShownFiles> {
    try {
      const { config, plugins, reading } = await this.#parts.reader.lookAt()
      const files = maskedTexts(reading.texts, reading.source!, schemasOf(config.chain, plugins))
      return { hash: config.hash, files, problems: [] }
    } catch (error) {
      if (!(error instanceof ConfigError)) throw error
      return { hash: null, files: [], problems: error.problems }
    }
  }

  /**
   * Checks texts as `sluice check` does, in place of those of the same name on disk. It runs no module of a plugin, and
   * reads no file as a part of the configuration, that the files on disk do not name.
   * @throws NotWritten when there is no file of a name
   */
  async check(texts: readonly NewText[]): Promise<Checked> {
    return this.#check(texts, this.#parts.reader.reading())
  }

  /**
   * Writes texts over the files of these names and reloads, when they have no problems. When the reload is refused, the
   * files are as before. `hash` is that of the files that they were made from.
   * @throws NotWritten, or ReplacementRefused when a file cannot be written: nothing has changed
   */
  write(texts: readonly NewText[], hash: string, by: string): Promise<ReplacedReload> {
    const { reader, reloader, current } = this.#parts
    return reloader.alone(async (reload) => {
      const before = reader.reading()
      if (!before.whole || hashOf(before.texts) !== hash)
        throw new NotWritten('config_changed', 'The files were changed since they were read: read them again.')
      const wanted = texts.map((one): Wanted => ({ ...fileOf(one, before), text: one.text }))
      const shown = await this.show()
      if (shown.problems.length > 0)
        throw new NotWritten('config_problems', 'The files on disk have problems: mend them by hand.', shown.problems)
      const masked = texts.find(({ name }) => shown.files.find((one) => one.name === name)?.masked !== 0)
      if (masked || texts.some(({ text }) => text.includes(mask)))
        throw new NotWritten(
          'config_masked',
          `${masked?.name ?? 'A text'} has secrets that are not shown, and would lose them: write \${NAME} in their place by hand first, and put them into the environment.`
        )
      const { problems } = await this.#check(texts, before)
      if (problems.length > 0)
        throw new NotWritten('config_problems', 'The texts have problems, and nothing was written.', problems)
      const [main] = before.texts
      const keep = current().hash !== hash
      const whole: [Wanted, ...Wanted[]] = [
        { file: main!.file, text: main!.text, was: main!.text },
        ...wanted.filter(({ file }) => file !== main!.file)
      ]
      const first = wanted.find(({ file }) => file === main!.file)
      if (first) whole[0] = first
      return replaceAndReload(whole, () => reload('written', by), keep)
    })
  }

  async #check(texts: readonly NewText[], before: Reading): Promise<Checked> {
    const files = new Drafts(new Map(texts.map((one) => [fileOf(one, before).file, one.text])))
    let next: Config | undefined
    const { onDisk, changes, problems } = await this.#parts.reloader.preview(async () => {
      next = (await this.#parts.reader.lookAt(files, trustOf(before))).config
      return next
    })
    return { hash: onDisk ?? null, problems, warnings: next?.warnings ?? [], changes: inWords(changes) }
  }
}

/** @throws NotWritten when there is none of this name */
function fileOf({ name }: NewText, { texts }: Reading): Required<Pick<Wanted, 'file' | 'was'>> {
  const found = texts.find((one) => one.name === name)
  if (found) return { file: found.file, was: found.text }
  throw new NotWritten('config_unknown_file', `The configuration has no file ${JSON.stringify(name.slice(0, 100))}.`)
}

/** Texts may use what the files on disk use: anybody who may write those by hand decides about the rest. */
function trustOf(before: Reading): Trust {
  const known = new Set(before.texts.map(({ file }) => file))
  const id = ({ name, from }: { name: string; from: string }): string => `${name} ${from}`
  const plugins = new Set(declaredPlugins(before.source).map(id))
  return {
    text: (file) => (known.has(file) ? undefined : 'this file is not included yet: include it by hand, not from here'),
    plugin: (one) =>
      plugins.has(id(one)) ? undefined : 'is not declared yet: a plugin is declared by hand, not from here'
  }
}

/** Files some of which have other texts than those on disk. */
class Drafts extends Files {
  readonly #texts: ReadonlyMap<string, string>

  constructor(texts: ReadonlyMap<string, string>) {
    super()
    this.#texts = texts
  }

  override read(path: string): Content {
    const text = this.#texts.get(path)
    return text === undefined ? super.read(path) : contentWith(Buffer.from(text))
  }
}
