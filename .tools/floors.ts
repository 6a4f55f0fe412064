// Checks the structure of core and of its larger rooms: imports go down the floors that their READMEs draw, and rooms
// on one floor do not import each other.
import { globSync, readFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'

/** Matches `from '…'` of imports and exports, and `import('…')`, with a relative path. */
const imported = /(?:\bfrom|\bimport)\s*\(?\s*'(\.{1,2}\/[^']+)'/g

/** The floor of each room, as a README draws it; undefined when it does not. The top floor is 0. */
function floorsOf(readme: string): Map<string, number> | undefined {
  const picture = /## The rooms[\s\S]*?```\n([\s\S]*?)```/.exec(readme)?.[1]
  if (picture === undefined) return undefined
  const floors = new Map<string, number>()
  for (const [floor, line] of picture.trimEnd().split('\n').entries())
    for (const room of line.trim().split(/\s+/)) floors.set(room, floor)
  return floors
}

/** One line for each import that goes up, or to another room on the same floor. */
export function misplacedImports(root: string): string[] {
  const files = globSync('{core,plugins,config}/**/*.ts', { cwd: root }).filter((file) => !file.includes('/assembly/'))
  return globSync('core/**/README.md', { cwd: root }).flatMap((readme) => {
    const floors = floorsOf(readFileSync(join(root, readme), 'utf8'))
    return floors ? misplacedIn(root, readme, floors, files.sort()) : []
  })
}

function misplacedIn(
  root: string,
  readme: string,
  floors: ReadonlyMap<string, number>,
  files: readonly string[]
): string[] {
  const house = dirname(readme)
  return files.flatMap((file) => {
    const own = roomOf(house, file)
    if (own === undefined) return []
    const floor = floors.get(own)
    if (floor === undefined) return [`${file} is in a room that ${readme} does not show: ${own}`]
    return [...readFileSync(join(root, file), 'utf8').matchAll(imported)].flatMap(([, specifier]) => {
      const target = relative(root, join(root, dirname(file), specifier!))
      const room = roomOf(house, target)
      const below = room === undefined ? undefined : floors.get(room)
      if (room === own || below === undefined || below > floor) return []
      return [`${file} imports ${target}, which is ${below === floor ? 'on the same floor' : 'above it'}`]
    })
  })
}

/**
 * The room of a file in a house, which is a folder whose README draws its rooms: the folder in it, or the file itself
 * if it is directly there. plugins and config are rooms of core. Undefined for a file elsewhere.
 */
function roomOf(house: string, path: string): string | undefined {
  if (path.startsWith(`${house}/`))
    return path
      .slice(house.length + 1)
      .split('/', 1)[0]!
      .replace(/\.ts$/, '')
  const [top] = path.split('/')
  return house === 'core' && top !== 'core' ? top : undefined
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
