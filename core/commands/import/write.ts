// Writes what an import has made: to a new file, or to standard output, with the report beside it.
import { readFileSync, statSync, writeFileSync } from 'node:fs'
import { exits } from '../command/command.ts'
import type { Draft } from './draft.ts'
import type { Fates } from './fates.ts'

/** The largest file in bytes that is read. */
export const largest = 64 * 1024 * 1024

/** The text of a file. @throws Error when it cannot be read, or is too large */
export function textIn(file: string): string {
  try {
    const { size } = statSync(file)
    if (size > largest) throw new Error(`it has ${size} bytes, and ${largest} are the most`)
    return readFileSync(file, 'utf8')
  } catch (error) {
    throw new Error(`${file} cannot be read: ${(error as Error).message}`)
  }
}

/** Writes a file that is not there yet, for its user alone: it may have credentials. */
export function writeNew(file: string, text: string): void {
  try {
    writeFileSync(file, text, { flag: 'wx', mode: 0o600 })
  } catch (error) {
    const exists = (error as NodeJS.ErrnoException).code === 'EEXIST'
    throw new Error(
      exists ? `${file} is there already: name a new file` : `${file} cannot be written: ${(error as Error).message}`
    )
  }
}

/**
 * Writes the gateway.yaml of a draft, and says what was made and what has no counterpart. `source`: the name of the
 * file that it was made of. Returns the exit code.
 * @throws Error when nothing was made
 */
export function writeDraft(
  draft: Draft,
  fates: Fates,
  { source, out, json }: { source: string; out: string | undefined; json: boolean }
): number {
  const { channels, models, projects, keys } = draft.counts
  if (models === 0) throw new Error(`${source} has no model that can be served:\n${fates.text}`)
  const yaml = draft.text(source)
  if (out !== undefined) writeNew(out, yaml)
  const counts = { channels, models, projects, keys }
  if (json) {
    const result = { ...counts, told: fates.all, ...(out === undefined ? { yaml } : { file: out }) }
    process.stdout.write(`${JSON.stringify(result)}\n`)
    return exits.ok
  }
  if (out === undefined) process.stdout.write(yaml)
  const made = Object.entries(counts).map(([noun, count]) => `${count} ${count === 1 ? noun.slice(0, -1) : noun}`)
  process.stderr.write(`${made.join(', ')} made\n${fates.text}${fates.text === '' ? '' : '\n'}`)
  return exits.ok
}
