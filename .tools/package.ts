// Puts the program into the few files of the package: what is started by its name (the command, threads, processes, and
// what plugins import), and what these share. They are the sources as they are: nothing is minified.
import { readFileSync } from 'node:fs'
import { join, relative, sep } from 'node:path'
import { build, transform } from 'esbuild'
import type { OutputFile, Plugin } from 'esbuild'

const root = join(import.meta.dirname, '..')

/** The modules that something starts or imports by their names. */
const entries = [
  'core/main.ts',
  'core/worker.ts',
  'core/contract/contract.ts',
  'test/kit/testing.ts',
  'core/store/embedded/writer/writer-main.ts',
  'core/program/reading-thread.ts',
  'core/store/embedded/reader/reader-thread.ts',
  'core/store/embedded/care/verify/verify-process.ts',
  'core/store/embedded/care/verify/record-thread.ts',
  'core/store/embedded/care/backup-process.ts',
  'core/store/cluster/money/verify/verify-process.ts',
  'core/commands/output/progress-thread.ts',
  'plugins/protocol-translate/thread.ts'
]

/** The files that begin before it is known whether Node can load the others. */
const scripts = ['core/bin.cts', 'core/bin-main.cts']

/** Stands for the folder of the package in an address that begins at the file that has it. */
const top = '@package/'

/**
 * Modules keep what they know of their own place, wherever their code lies: beside the threads, files and folders that
 * they name.
 */
const places: Plugin = {
  name: 'places',
  setup({ onLoad }) {
    onLoad({ filter: /\.ts$/ }, ({ path }) => {
      const place = top + relative(root, path).split(sep).join('/').replace(/\.ts$/, '.js')
      const url = `new URL(${JSON.stringify(place)}, import.meta.url)`
      const filename = `process.getBuiltinModule('node:url').fileURLToPath(${url})`
      const contents = readFileSync(path, 'utf8')
        .replaceAll(/\bimport\.meta\.url\b/g, `${url}.href`)
        .replaceAll(/\bimport\.meta\.dirname\b/g, `process.getBuiltinModule('node:path').dirname(${filename})`)
        .replaceAll(/\bimport\.meta\.filename\b/g, filename)
      return { contents, loader: 'ts' }
    })
  }
}

/**
 * Packages stay packages, but for two. tsyringe looks for `Reflect.getMetadata` when it is loaded, and all packages are
 * loaded before the first line of a file that imports them. yaml is 72 files, which every start needs.
 */
const packages: Plugin = {
  name: 'packages',
  setup({ onResolve }) {
    onResolve({ filter: /^[^./]/ }, ({ path, kind }) =>
      /^(tsyringe|tslib|yaml)$/.test(path) || kind === 'entry-point' ? undefined : { path, external: true }
    )
  }
}

/** What Node's modules keep for later and every start needs: addresses of channels are checked by it. */
const needed = ['BlockList']

/**
 * Modules of Node are not imported. An import of one reads all that it has, and so loads what it keeps for later:
 * streams of files, the cryptography of the web, another HTTP client. Whoever imports what a module keeps for later is
 * told when the package is made.
 */
const nodes: Plugin = {
  name: 'nodes',
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /^(node:|process$|buffer$)/ }, ({ path, kind }) =>
      kind === 'import-statement' || kind === 'require-call' ? { path, namespace: kind } : undefined
    )
    onLoad({ filter: /./, namespace: 'require-call' }, ({ path }) => ({
      contents: `module.exports = ${moduleOf(path)}`
    }))
    onLoad({ filter: /./, namespace: 'import-statement' }, ({ path }) => {
      const members = Object.entries(Object.getOwnPropertyDescriptors(process.getBuiltinModule(path)))
      const names = members
        .filter(([name, { get }]) => (!get || needed.includes(name)) && /^[a-z_]\w*$/i.test(name) && name !== 'default')
        .map(([name]) => name)
      return { contents: `const it = ${moduleOf(path)}\nexport default it\nexport const { ${names.join(', ')} } = it` }
    })
  }
}

function moduleOf(name: string): string {
  return `process.getBuiltinModule(${JSON.stringify(name)})`
}

/** A file of the package: its path, and what is in it. */
export interface PackageFile {
  readonly path: string
  readonly contents: string
}

/**
 * Makes the files, which belong into `folder`.
 * @throws Error when a module cannot be bundled
 */
export async function bundlePackage(folder: string): Promise<PackageFile[]> {
  const { outputFiles } = await build({
    entryPoints: entries.map((name) => join(root, name)),
    outdir: folder,
    outbase: root,
    chunkNames: 'shared/[name]-[hash]',
    bundle: true,
    splitting: true,
    write: false,
    platform: 'node',
    format: 'esm',
    target: 'esnext',
    sourcemap: true,
    sourcesContent: false,
    logLevel: 'error',
    plugins: [nodes, packages, places]
  })
  return [
    ...outputFiles.map((file) => placed(file, folder)),
    ...(await Promise.all(scripts.map((name) => script(name, folder))))
  ]
}

function placed({ path, text }: OutputFile, folder: string): PackageFile {
  const depth = relative(folder, path).split(sep).length - 1
  return { path, contents: text.replaceAll(top, depth === 0 ? './' : '../'.repeat(depth)) }
}

async function script(name: string, folder: string): Promise<PackageFile> {
  const { code } = await transform(readFileSync(join(root, name), 'utf8'), {
    loader: 'ts',
    format: 'cjs',
    platform: 'node',
    target: 'esnext'
  })
  return { path: join(folder, name.replace(/\.cts$/, '.cjs')), contents: code.replaceAll(/\.ts(['"])/g, '.js$1') }
}
