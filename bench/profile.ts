// Where a profiled process spent its time: the hottest functions by self time, one table a thread.
import { readFileSync, readdirSync } from 'node:fs'
import { basename, join } from 'node:path'
import { fileURLToPath } from 'node:url'

/** The parts of a .cpuprofile file that are read. */
interface Profile {
  nodes: { id: number; callFrame: { functionName: string; url: string; lineNumber: number } }[]
  samples: number[]
  /** Microseconds before each sample. */
  timeDeltas: number[]
}

const shown = 25
const root = fileURLToPath(new URL('../', import.meta.url))

/** Tables of every profile in a directory, the busiest thread first; each covers the process's whole life. */
export function hottest(directory: string): string {
  return readdirSync(directory)
    .filter((file) => file.endsWith('.cpuprofile'))
    .map((file) => table(join(directory, file)))
    .toSorted((a, b) => b.busy - a.busy)
    .map(({ text }) => text)
    .join('\n')
}

function table(file: string): { busy: number; text: string } {
  const { nodes, samples, timeDeltas } = JSON.parse(readFileSync(file, 'utf8')) as Profile
  const places = new Map(nodes.map(({ id, callFrame }) => [id, place(callFrame)]))
  const self = new Map<string, number>()
  for (const [at, id] of samples.entries()) {
    const where = places.get(id)!
    self.set(where, (self.get(where) ?? 0) + timeDeltas[at]!)
  }
  self.delete('(idle)')
  const busy = [...self.values()].reduce((sum, time) => sum + time, 0)
  const rows = [...self].toSorted(([, a], [, b]) => b - a).slice(0, shown)
  // CPU.<date>.<time>.<pid>.<thread>.<sequence>.cpuprofile
  const thread = basename(file).split('.')[4]
  return {
    busy,
    text: [
      `thread ${thread}: ${(busy / 1e6).toFixed(1)} s busy`,
      ...rows.map(([where, time]) => `${(100 * time / busy).toFixed(1).padStart(6)} %  ${(time / 1000).toFixed(0).padStart(6)} ms  ${where}`),
      '',
    ].join('\n'),
  }
}

function place({ functionName, url, lineNumber }: Profile['nodes'][number]['callFrame']): string {
  const name = functionName || '(anonymous)'
  if (url === '') return name
  const file = url.startsWith('file:') ? fileURLToPath(url).replace(root, '') : url
  return `${name}  ${file}:${lineNumber + 1}`
}
