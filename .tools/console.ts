// Makes the files of the console for the package: all modules in one file, minified, under a name with its hash; what
// draws charts, which some pages need; styles; all of them compressed, and a list that the gateway reads.
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build, transform } from 'esbuild'
import type { BuildOptions } from 'esbuild'
import { assetOf, types } from '../core/admin/console/asset.ts'
import type { Manifest } from '../core/admin/console/built-shelf.ts'
import { folder as sources, listSources, textOf } from '../core/admin/console/sources.ts'
import type { Source } from '../core/admin/console/sources.ts'

/** Modules that keep their names, as others name them. */
const workers = /-worker\.ts$/

/**
 * Writes the files into a folder.
 * @throws Error when a module cannot be bundled
 */
export async function bundleConsole(folder: string): Promise<Manifest> {
  await mkdir(folder, { recursive: true })
  const list = await listSources()
  const files: Manifest['files'] = {}
  const put = async (name: string, type: string, body: Uint8Array, lasting: boolean): Promise<void> => {
    const { etag, br, gz } = await assetOf(type, body, 11)
    const file = name.replaceAll('/', '-')
    files[name] = { file, type, etag, lasting }
    await Promise.all([
      writeFile(join(folder, file), body),
      writeFile(join(folder, `${file}.br`), br),
      writeFile(join(folder, `${file}.gz`), gz)
    ])
  }
  const common = { bundle: true, minify: true, target: 'es2024', write: false, legalComments: 'none' } as const
  // A browser has six connections: what comes in many files waits for them, and so does what is asked of the API. Code
  // of pages that nobody opens is not run.
  const bundled = async (path: string, plugins: NonNullable<BuildOptions['plugins']> = []): Promise<string> => {
    const entry = { entryPoints: [path], outdir: folder, entryNames: '[name]-[hash]' }
    const [made] = (await build({ ...common, ...entry, format: 'esm', plugins })).outputFiles
    const name = made!.path.slice(folder.length + 1)
    await put(name, types.module, made!.contents, true)
    return name
  }
  const charts = await bundled(fileURLToPath(import.meta.resolve('uplot/dist/uPlot.esm.js')))
  const script = await bundled(join(sources, 'main.ts'), [
    {
      name: 'charts',
      setup: ({ onResolve }) => onResolve({ filter: /^uplot$/ }, () => ({ path: `./${charts}`, external: true }))
    }
  ])
  const alone = async ({ paths }: Source, format: 'iife' | 'esm'): Promise<Uint8Array> =>
    (await build({ ...common, entryPoints: [...paths], format })).outputFiles[0]!.contents
  let [first, style] = ['', '']
  for (const source of list) {
    const { name, kind } = source
    if (name === 'app/first.ts') first = Buffer.from(await alone(source, 'iife')).toString()
    else if (workers.test(name)) await put(name, types.module, await alone(source, 'esm'), false)
    else if (kind === 'picture') await put(name, types.picture, Buffer.from(await textOf(source)), false)
    else if (kind === 'style')
      style = (await transform(await textOf(source), { loader: 'css', minify: true, target: 'chrome123' })).code
  }
  const manifest: Manifest = { script, first, style, files }
  await writeFile(join(folder, 'manifest.json'), JSON.stringify(manifest))
  return manifest
}
