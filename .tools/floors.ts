// Checks the structure of core: imports go down the floors in core/README.md, and rooms on one floor do not import each
// other.
import { globSync, readFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'

/** Matches `from '…'` of imports and exports, and `import('…')`, with a relative path. */
const imported = /(?:\bfrom|\bimport)\s*\(?\s*'(\.{1,2}\/[^']+)'/g

/** The floor of each room by its path, as in the picture in core/README.md. The top floor is 0. */
export function floorsOf(readme: string): Map<string, number> {
  const picture = /## The rooms[\s\S]*?```\n([\s\S]*?)```/.exec(readme)?.[1]
  if (picture === undefined) throw new Error('core/README.md has no picture of the rooms')
  const floors = new Map<string, number>()
  for (const [floor, line] of picture.trimEnd().split('\n').entries())
    for (const room of line.trim().split(/\s+/)) floors.set(room, floor)
  return floors
}

/** One line for each import that goes up, or to another room on the same floor. */
export function misplacedImports(root: string): string[] {
  const floors = floorsOf(readFileSync(join(root, 'core/README.md'), 'utf8'))
  const files = globSync('{core,plugins,config}/**/*.ts', { cwd: root }).filter((file) => !file.includes('/assembly/'))
  return files.sort().flatMap((file) => {
    const own = roomOf(file)
    const floor = floors.get(own)
    if (floor === undefined) return [`${file} is in a room that core/README.md does not show: ${own}`]
    return [...readFileSync(join(root, file), 'utf8').matchAll(imported)].flatMap(([, specifier]) => {
      const target = relative(root, join(root, dirname(file), specifier!))
      const room = roomOf(target)
      const below = floors.get(room)
      if (room === own || below === undefined || below > floor) return []
      return [`${file} imports ${target}, which is ${below === floor ? 'on the same floor' : 'above it'}`]
    })
  })
}

/**
 * The room of a file: its folder in core, or the file itself if it is directly in core. plugins and config are one room
 * each.
 */
function roomOf(path: string): string {
  const [top, room] = path.split('/')
  return top === 'core' ? room!.replace(/\.ts$/, '') : top!
}

/** One line for each circle of files that import each other, including imports of types. */
export function circles(root: string): string[] {
  const files = globSync('{core,plugins,config,bench}/**/*.ts', { cwd: root }).filter(
    (file) => !file.includes('/assembly/')
  )
  const targets = new Map(
    files.sort().map((file) => {
      const text = readFileSync(join(root, file), 'utf8')
      return [
        file,
        [...text.matchAll(imported)].map(([, specifier]) => relative(root, join(root, dirname(file), specifier!)))
      ]
    })
  )
  const found: string[] = []
  const done = new Set<string>()
  const walk = (file: string, path: readonly string[]): void => {
    const at = path.indexOf(file)
    if (at >= 0) found.push([...path.slice(at), file].join(' → '))
    if (at >= 0 || done.has(file)) return
    for (const target of targets.get(file) ?? []) walk(target, [...path, file])
    done.add(file)
  }
  for (const file of files) walk(file, [])
  return found
}
