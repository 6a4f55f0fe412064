// Where a measuring program leaves its figures when it is run with `--write`.
import { readFileSync, writeFileSync } from 'node:fs'

/**
 * With `--write` puts figures between the marks `<!-- name -->` and `<!-- /name -->` of a page.
 * @throws Error when the page has no such marks
 */
export function writeFigures(page: string, name: string, figures: string): void {
  if (!process.argv.includes('--write')) return
  const text = readFileSync(page, 'utf8')
  const [begin, end] = [`<!-- ${name} -->`, `<!-- /${name} -->`]
  const [from, to] = [text.indexOf(begin), text.indexOf(end)]
  if (from < 0 || to < from) throw new Error(`${page} lacks the marks ${begin} and ${end}: put them back`)
  writeFileSync(page, `${text.slice(0, from + begin.length)}\n${figures}\n${text.slice(to)}`)
}
