// Finds links and paths in READMEs that lead nowhere.
import { existsSync, globSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'

/** Paths that are not in the repository: examples, files that a gateway makes, and names in the package. */
const elsewhere = /^(?:data|sluice)\/|tenant-cap|\*/

/** One line for each link, and each path in backquotes, that leads nowhere. A path may omit `.ts` and `core/`. */
export function brokenReferences(root: string): string[] {
  const files = globSync('**/*.md', { cwd: root, exclude: ['**/node_modules/**', '.cache/**', 'dist/**', 'data/**'] })
  return files.flatMap((file) => {
    const text = readFileSync(join(root, file), 'utf8').replace(/```[^]*?```/g, '')
    const folder = dirname(file)
    const links = [...text.matchAll(/\]\(([^)#:]+)(?:#[^)]*)?\)/g)].map(([, link]) => link!)
    const names = [...text.matchAll(/`([\w.-]+(?:\/[\w.*-]+)+\/?)`/g)].map(([, name]) => name!)
    return [
      ...links.filter((link) => !existsSync(join(root, folder, link))).map((link) => `${file}: the link ${link}`),
      ...names.filter((name) => !elsewhere.test(name) && !isThere(root, folder, name)).map((name) => `${file}: ${name}`)
    ].map((found) => `${found} leads nowhere`)
  })
}

function isThere(root: string, folder: string, name: string): boolean {
  return [folder, '.', 'core', 'core/exchange', 'test', 'test/kit'].some((base) =>
    ['', '.ts', '.test.ts', '/index.ts'].some((end) => existsSync(join(root, base, name + end)))
  )
}
