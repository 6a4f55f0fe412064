// Puts modules into one file each for a run of the tests: the programs that tests run as processes and threads of their
// own, since loading a thousand modules takes half of the start of such a process; and tap, whose three hundred modules
// take a tenth of a second. What is in the files are the sources as they are; nothing is minified or left out.
import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { build } from 'esbuild'
import type { BuildOptions, OutputFile, Plugin } from 'esbuild'

const root = join(import.meta.dirname, '..')

/** Modules keep what they know of their own place, as the threads and files that they name lie beside them. */
const places: Plugin = {
  name: 'places',
  setup({ onLoad }) {
    onLoad({ filter: /\.ts$/ }, ({ path }) => {
      const { href } = pathToFileURL(path)
      const contents = readFileSync(path, 'utf8')
        .replaceAll(/\bimport\.meta\.url\b/g, JSON.stringify(href))
        .replaceAll(/\bimport\.meta\.dirname\b/g, JSON.stringify(dirname(path)))
        .replaceAll(/\bimport\.meta\.filename\b/g, JSON.stringify(path))
      return { contents, loader: 'ts' }
    })
  }
}

/** Packages that are loaded when they are needed, and others need the same copy of. */
const apart: Plugin = {
  name: 'apart',
  setup({ onResolve }) {
    onResolve({ filter: /^[^./]/ }, ({ path, kind }) =>
      kind === 'dynamic-import' ? { path, external: true } : undefined
    )
  }
}

const common = {
  absWorkingDir: root,
  bundle: true,
  write: false,
  platform: 'node',
  format: 'esm',
  target: 'esnext',
  keepNames: true,
  logLevel: 'error',
  banner: {
    js: 'import { createRequire as requireOf } from "node:module"\nconst require = requireOf(import.meta.url)'
  }
} satisfies BuildOptions

/** What runs as a process or a thread of its own, again and again. */
const programs = [
  'core/main.ts',
  'core/worker.ts',
  'core/program/reading-thread.ts',
  'core/store/embedded/reader/reader-thread.ts',
  'core/store/embedded/writer/writer-main.ts',
  'plugins/protocol-translate/thread.ts',
  'test/chaos/halting.ts',
  'test/chaos/restoring.ts',
  'test/core/store/cluster/money/attacked-node.ts',
  'test/core/store/embedded/crash.ts',
  'test/core/store/embedded/segments/crash.ts',
  'test/core/store/move/mover.ts',
  'test/core/workers/victim.ts',
  'test/kit/command-process.ts'
]

/** Tap as the tests of a run have it: it makes their folders where the run has its own. */
const tap = `import t from 'tap'
import { basename, join } from 'node:path'
export * from 'tap'
export default t
const fixtures = process.env.SLUICE_FIXTURES
if (fixtures) t.testdirName = join(fixtures, basename(t.testdirName))
`

const folder = join(root, '.cache/bundles')
/** Milliseconds after which a file of other sources is removed; tests that run may still read a younger one. */
const keptFor = 86_400_000

/**
 * Writes the files, and returns their paths by the URLs of the modules that they stand for, and by `tap`, as resolve.ts
 * reads them.
 * @throws Error when a module cannot be bundled
 */
export async function bundle(): Promise<Record<string, string>> {
  mkdirSync(folder, { recursive: true })
  for (const name of readdirSync(folder)) {
    const path = join(folder, name)
    const { mtimeMs = Infinity } = statSync(path, { throwIfNoEntry: false }) ?? {}
    if (mtimeMs < Date.now() - keptFor) rmSync(path, { force: true })
  }
  const [made, library] = await Promise.all([
    build({ ...common, entryPoints: programs, outdir: root, outbase: root, plugins: [places, apart] }),
    build({
      ...common,
      stdin: { contents: tap, resolveDir: root },
      alias: { 'async-hook-domain': './.tools/domain.ts' }
    })
  ])
  const files = made.outputFiles.map(
    (file) => [pathToFileURL(file.path.replace(/js$/, 'ts')).href, keep(file)] as const
  )
  return { ...Object.fromEntries(files), tap: keep(library.outputFiles[0]!) }
}

/** Writes what was made under a name of its own, and returns the path. */
function keep({ contents, hash }: OutputFile): string {
  const file = join(folder, `${hash.replaceAll(/\W/g, '-')}.mjs`)
  // Under its name when it is whole, as several runs may make it at the same time.
  const making = join(folder, `making-${process.pid}`)
  writeFileSync(making, contents)
  renameSync(making, file)
  return file
}
