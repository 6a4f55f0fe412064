// Finds links, anchors and paths in Markdown files that lead nowhere, and READMEs that take too long to read.
import { existsSync, globSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'

/** Paths that are not in the repository: examples, files that a gateway makes, and names in the package. */
const elsewhere = /^(?:data|sluice)\/|tenant-cap|\*/

/** The most words of a README, which are read in five minutes. Code and generated tables do not count. */
const longest = 1400

/**
 * One line for each link, each anchor and each path in backquotes that leads nowhere, and for each README that is too
 * long. A path may omit `.ts` and `core/`.
 */
export function brokenReferences(root: string): string[] {
  const files = globSync('**/*.md', { cwd: root, exclude: ['**/node_modules/**', '.cache/**', 'dist/**', 'data/**'] })
  return files.flatMap((file) => {
    const text = withoutCode(readFileSync(join(root, file), 'utf8'))
    const folder = dirname(file)
    const links = [...text.matchAll(/\]\(([^)#:]*)(?:#([^)]*))?\)/g)]
    const names = [...text.matchAll(/`([\w.-]+(?:\/[\w.*-]+)+\/?)`/g)].map(([, name]) => name!)
    const found = [
      ...links
        .filter(([, path, anchor]) => !leads(join(root, path ? join(folder, path) : file), anchor))
        .map(([, path, anchor]) => `the link ${path}${anchor === undefined ? '' : `#${anchor}`} leads nowhere`),
      ...names
        .filter((name) => !elsewhere.test(name) && !isThere(root, folder, name))
        .map((name) => `${name} leads nowhere`),
      ...(file.endsWith('README.md') ? tooLong(text) : [])
    ]
    return found.map((line) => `${file}: ${line}`)
  })
}

function withoutCode(text: string): string {
  return text.replace(/^```[^]*?^```/gm, '')
}

/** Whether a file is there, and in it the heading that an anchor names. */
function leads(path: string, anchor: string | undefined): boolean {
  if (!existsSync(path)) return false
  return anchor === undefined || headings(withoutCode(readFileSync(path, 'utf8'))).includes(anchor)
}

/** The anchors of a text's headings, as GitHub makes them. */
function headings(text: string): string[] {
  return [...text.matchAll(/^#+ (.+)$/gm)].map(([, heading]) =>
    heading!
      .toLowerCase()
      .replace(/[^\p{L}\p{N} _-]/gu, '')
      .replaceAll(' ', '-')
  )
}

function tooLong(text: string): string[] {
  const written = text.replace(/<!-- (\w+)[^]*?<!-- \/\1 -->/g, '').replaceAll('|', ' ')
  const words = written.split(/\s+/).length
  return words <= longest ? [] : [`${words} words, and ${longest} at most: move a subject to a page of its own`]
}

function isThere(root: string, folder: string, name: string): boolean {
  return [folder, '.', 'core', 'core/exchange', 'test', 'test/kit'].some((base) =>
    ['', '.ts', '.test.ts', '/index.ts'].some((end) => existsSync(join(root, base, name + end)))
  )
}
