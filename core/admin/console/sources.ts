// Which files the console consists of when it is served from its sources: modules, styles, the icon, and the libraries.
import { glob, readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

/** Where the sources are. */
export const folder = join(import.meta.dirname, 'app')

/** One file of the console, made of one or several files of the disk. */
export interface Source {
  /** What follows `/console/` in its address. */
  readonly name: string
  /** `typescript`: its types are stripped. */
  readonly kind: 'typescript' | 'library' | 'style' | 'picture'
  readonly paths: readonly string[]
  /** When the newest of them was changed, in Unix milliseconds. */
  readonly changed: number
}

/** Where the libraries are, by the names that modules import them by. */
const found: Readonly<Record<string, () => string>> = {
  preact: () => import.meta.resolve('preact'),
  'preact/hooks': () => import.meta.resolve('preact/hooks'),
  htm: () => import.meta.resolve('htm'),
  '@preact/signals': () => import.meta.resolve('@preact/signals'),
  '@preact/signals-core': () => import.meta.resolve('@preact/signals-core'),
  // Its package names no module for Node, which would take the one for CommonJS.
  uplot: () => import.meta.resolve('uplot/dist/uPlot.esm.js')
}

const vendorName = (specifier: string): string => `vendor/${specifier.replace('@', '').replace('/', '-')}.js`

/** The files of the libraries by the names that modules import them by. */
export const libraries: Readonly<Record<string, string>> = Object.fromEntries(
  Object.keys(found).map((specifier) => [specifier, vendorName(specifier)])
)

/** The styles that come before those of pages, which build on them. */
const first = ['style/tokens.css', 'style/base.css', 'style/parts.css']

/**
 * Lists all files, with when they were changed.
 * @throws Error when a library is not installed
 */
export async function listSources(): Promise<Source[]> {
  const names: string[] = []
  for await (const name of glob('**/*.{ts,css,svg}', { cwd: folder })) names.push(name)
  names.sort()
  const styles = [...first, ...names.filter((name) => name.endsWith('.css') && !first.includes(name))]
  const uplotStyle = fileURLToPath(import.meta.resolve('uplot/dist/uPlot.min.css'))
  return Promise.all([
    sourceOf('style.css', 'style', [uplotStyle, ...styles.map((name) => join(folder, name))]),
    ...names.flatMap((name) => {
      const kind = name.endsWith('.ts') ? 'typescript' : 'picture'
      return name.endsWith('.css') ? [] : [sourceOf(`app/${name}`, kind, [join(folder, name)])]
    }),
    ...Object.entries(found).map(([specifier, resolve]) =>
      sourceOf(vendorName(specifier), 'library', [fileURLToPath(resolve())])
    )
  ])
}

/** The text of a source: of several files, one after another. */
export async function textOf({ paths }: Source): Promise<string> {
  return (await Promise.all(paths.map((path) => readFile(path, 'utf8')))).join('\n')
}

async function sourceOf(name: string, kind: Source['kind'], paths: readonly string[]): Promise<Source> {
  const changed = await Promise.all(paths.map(async (path) => (await stat(path)).mtimeMs))
  return { name, kind, paths, changed: Math.max(...changed) }
}
