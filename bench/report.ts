// Tables of figures, printed, and written into FIGURES.md between markers.
import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { cpus, loadavg, release, totalmem } from 'node:os'
import undici from 'undici/package.json' with { type: 'json' }
import { pinned } from './child.ts'
import { nginx, nginxVersion } from './nginx.ts'

/** The result of a scenario. */
export interface Report {
  /** The name on the command line and in the markers. */
  id: string
  title: string
  columns: readonly string[]
  rows: readonly (readonly string[])[]
  /** Facts that a reader needs to understand the figures. */
  notes: readonly string[]
  /** Answers that were wrong or missing, which make the figures void. */
  problems: readonly string[]
}

/** A report as Markdown. */
export function markdown({ title, columns, rows, notes, problems }: Report): string {
  const line = (cells: readonly string[]) => `| ${cells.join(' | ')} |`
  const width = columns.map((column, at) => Math.max(column.length, ...rows.map((row) => row[at]!.length)))
  const pad = (cells: readonly string[]) =>
    cells.map((cell, at) => (at === 0 ? cell.padEnd(width[at]!) : cell.padStart(width[at]!)))
  return [
    `**${title}**`,
    '',
    line(pad(columns)),
    line(width.map((size, at) => (at === 0 ? '-'.repeat(size) : `${'-'.repeat(size - 1)}:`))),
    ...rows.map((row) => line(pad(row))),
    '',
    ...notes.map((note) => `- ${note}`),
    ...problems.map((problem) => `- **Void:** ${problem}`)
  ]
    .join('\n')
    .trim()
}

/** The machine and the versions, one line. */
export function environment(rounds: number, seconds: number): string {
  const [cpu] = cpus()
  return [
    `${cpus().length} × ${cpu!.model}`,
    `${Math.round(totalmem() / 2 ** 30)} GiB`,
    `Linux ${release()}`,
    `Node ${process.version}`,
    `undici ${undici.version}`,
    nginx ? nginxVersion() : 'no nginx',
    pinned ? 'gateway pinned to one CPU, the rest to another' : 'nothing pinned',
    `${rounds} rounds of ${seconds} s`,
    `load average ${loadavg()[0]!.toFixed(0)} before it`,
    `commit ${commit()}`,
    new Date().toISOString().slice(0, 10)
  ].join(', ')
}

/** Replaces the text between a report's markers in FIGURES.md. */
export function writeFigures(report: Report, where: string): void {
  const file = new URL('FIGURES.md', import.meta.url)
  const text = readFileSync(file, 'utf8')
  const begin = `<!-- ${report.id}: written by the run -->`
  const end = `<!-- /${report.id} -->`
  const from = text.indexOf(begin)
  const to = text.indexOf(end)
  if (from < 0 || to < from) throw new Error(`bench/FIGURES.md lacks the markers ${begin} and ${end}: put them back`)
  writeFileSync(file, `${text.slice(0, from + begin.length)}\n${markdown(report)}\n\n${where}\n${text.slice(to)}`)
}

function commit(): string {
  try {
    return execFileSync('git', ['describe', '--always', '--dirty'], { stdio: ['ignore', 'pipe', 'ignore'] })
      .toString()
      .trim()
  } catch {
    return 'unknown'
  }
}
