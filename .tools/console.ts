// Makes the files of the console for the package: modules bundled and minified under names with their hashes, styles,
// all of them compressed, and a list that the gateway reads.
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { build, transform } from 'esbuild'
import { places } from '../core/admin/console/app/places.ts'
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
  const bundle = await build({
    ...common,
    entryPoints: [join(sources, 'main.ts')],
    outdir: folder,
    format: 'esm',
    splitting: true,
    entryNames: '[name]-[hash]',
    chunkNames: '[name]-[hash]',
    metafile: true
  })
  for (const { path, contents } of bundle.outputFiles)
    await put(path.slice(folder.length + 1), types.module, contents, true)
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
  const outputs = new Map(
    Object.entries(bundle.metafile.outputs).map(([path, output]) => [path.slice(path.lastIndexOf('/') + 1), output])
  )
  /** A file with those that it imports, but for those that it loads later. */
  const reachedFrom = (end: string): string[] => {
    const [start] = [...outputs].find(([, { entryPoint }]) => entryPoint?.endsWith(end)) ?? []
    const reached = new Set(start === undefined ? [] : [start])
    for (const name of reached)
      for (const { path, kind } of outputs.get(name)?.imports ?? [])
        if (kind === 'import-statement') reached.add(path.slice(path.lastIndexOf('/') + 1))
    return [...reached]
  }
  const [script, ...preload] = reachedFrom('/app/main.ts')
  const pages = Object.fromEntries(places.map(({ path }) => [path, reachedFrom(`/app/pages/${path}/${path}.ts`)]))
  const manifest: Manifest = { script: script!, preload, pages, first, style, files }
  await writeFile(join(folder, 'manifest.json'), JSON.stringify(manifest))
  return manifest
}
