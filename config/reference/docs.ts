// The command `npm run docs`: writes the generated files, which are gateway.schema.json and the tables of six pages.
// `--check` only compares.
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { exitTable } from '../../core/telling/exits.ts'
import { finishTable } from '../../core/protocols/translation/finish-table.ts'
import { matrixTables } from '../../core/protocols/translation/matrix.ts'
import { editorSchema } from './editor-schema.ts'
import { presetsTable } from '../presets/presets.ts'
import { fileRequired, fileShape } from '../shape.ts'
import { optionsTable } from './table.ts'
import type { Section } from './table.ts'
import type { Plugins } from '../sections/chain.ts'

const root = join(import.meta.dirname, '../..')

/** A generated file: its path, and its new content, which may be made from the present one. */
interface Generated {
  path: string
  write(before: string): string
}

/** All generated files, for these plugins. */
function generated(plugins: Plugins): readonly Generated[] {
  const reference = Object.entries(fileShape).map(([key, option]) =>
    chapter(key, { prefix: '', options: { [key]: option }, required: fileRequired })
  )
  const options = [...plugins.values()]
    .filter((plugin) => Object.keys(plugin.options).length > 0)
    .map(({ name, options, required }) => chapter(name, { prefix: `${name}.`, options, required }))
  return [
    { path: 'config/gateway.schema.json', write: () => `${JSON.stringify(editorSchema(plugins), null, 2)}\n` },
    { path: 'config/REFERENCE.md', write: (before) => between(before, 'reference', reference.join('')) },
    { path: 'config/presets/PRESETS.md', write: (before) => between(before, 'presets', presetsTable()) },
    { path: 'plugins/OPTIONS.md', write: (before) => between(before, 'options', options.join('')) },
    { path: 'core/protocols/MATRIX.md', write: (before) => between(before, 'matrix', matrixTables()) },
    { path: 'docs/OPERATING.md', write: (before) => between(before, 'exits', exitTable()) },
    { path: 'core/protocols/FINISHES.md', write: (before) => between(before, 'finishes', finishTable()) }
  ]
}

/** A heading and the table of a section. */
function chapter(title: string, section: Section): string {
  return `\n## ${title}\n\n${optionsTable([section])}`
}

/**
 * Replaces the text between `<!-- name -->` and `<!-- /name -->`.
 * @throws Error when there are no such lines
 */
export function between(text: string, name: string, content: string): string {
  const [open, close] = [`<!-- ${name} -->`, `<!-- /${name} -->`]
  const start = text.indexOf(open)
  const end = text.indexOf(close)
  if (start < 0 || end < start) throw new Error(`has no lines "${open}" and "${close}" to put the table between`)
  return `${text.slice(0, start + open.length)}\n${content}${text.slice(end)}`
}

/** Brings every generated file up to date; with `check`, only prints which are not. Returns the exit code. */
function main(plugins: Plugins, check: boolean): number {
  let code = 0
  for (const { path, write } of generated(plugins)) {
    const file = join(root, path)
    try {
      const before = path.endsWith('.json') ? readOr(file, '') : readFileSync(file, 'utf8')
      const after = write(before)
      if (after === before) continue
      if (check) {
        console.error(`${path} is out of date: run "npm run docs"`)
        code = 1
      } else {
        writeFileSync(file, after)
        console.log(`wrote ${path}`)
      }
    } catch (error) {
      console.error(`${path}: ${(error as Error).message}`)
      code = 1
    }
  }
  return code
}

function readOr(file: string, otherwise: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return otherwise
  }
}

if (import.meta.main) {
  // The configuration knows plugins only by their contract. This command is the exception, so it imports them here and
  // not at the top.
  const { plugins }: { plugins: Plugins } = await import(pathToFileURL(join(root, 'plugins/index.ts')).href)
  process.exitCode = main(plugins, process.argv.includes('--check'))
}
