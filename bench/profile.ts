// Evaluates CPU profiles: the functions with the most time of their own, and the project's functions including what
// they call in Node and libraries.
import { readFileSync, readdirSync } from 'node:fs'
import { basename, join } from 'node:path'

/** The parts of a .cpuprofile file that are read. */
interface Profile {
  nodes: { id: number; callFrame: { functionName: string; url: string; lineNumber: number }; children?: number[] }[]
  samples: number[]
  /** Microseconds before each sample. */
  timeDeltas: number[]
}

const shown = 25
const root = new URL('../', import.meta.url).href

/** The tables of every profile in a directory, the busiest thread first. Each covers the thread's whole life. */
export function hottest(directory: string): string {
  return readdirSync(directory)
    .filter((file) => file.endsWith('.cpuprofile'))
    .map((file) => tables(join(directory, file)))
    .toSorted((a, b) => b.busy - a.busy)
    .map(({ text }) => text)
    .join('\n')
}

function tables(file: string): { busy: number; text: string } {
  const { nodes, samples, timeDeltas } = JSON.parse(readFileSync(file, 'utf8')) as Profile
  const byId = new Map(nodes.map((node) => [node.id, node]))
  const places = new Map(nodes.map(({ id, callFrame }) => [id, place(callFrame)]))
  // A node belongs to the nearest of the project's functions on its stack. Parents come before their children.
  const owners = new Map<number, string>()
  for (const { id, children = [] } of nodes) {
    for (const child of children) {
      const ours = isOurs(byId.get(child)!.callFrame.url)
      owners.set(child, ours ? places.get(child)! : (owners.get(id) ?? '(nobody of ours)'))
    }
  }
  const self = new Map<string, number>()
  const owned = new Map<string, number>()
  let busy = 0
  for (const [at, id] of samples.entries()) {
    const where = places.get(id)!
    if (where === '(idle)') continue
    const time = timeDeltas[at]!
    busy += time
    self.set(where, (self.get(where) ?? 0) + time)
    const owner = where.startsWith('(') && !where.startsWith('(anonymous)') ? where : owners.get(id)!
    owned.set(owner, (owned.get(owner) ?? 0) + time)
  }
  const rows = (times: ReadonlyMap<string, number>) =>
    [...times]
      .toSorted(([, a], [, b]) => b - a)
      .slice(0, shown)
      .map(
        ([where, time]) =>
          `${((100 * time) / busy).toFixed(1).padStart(6)} %  ${(time / 1000).toFixed(0).padStart(6)} ms  ${where}`
      )
  // CPU.<date>.<time>.<pid>.<thread>.<sequence>.cpuprofile
  const [, , , pid, thread] = basename(file).split('.')
  return {
    busy,
    text: [
      `process ${pid} thread ${thread}, ${(busy / 1e6).toFixed(1)} s busy, by itself:`,
      ...rows(self),
      '',
      'our functions with what they call in Node and in libraries:',
      ...rows(owned),
      ''
    ].join('\n')
  }
}

function isOurs(url: string): boolean {
  return url.startsWith(root) && !url.includes('/node_modules/')
}

function place({ functionName, url, lineNumber }: Profile['nodes'][number]['callFrame']): string {
  const name = functionName || '(anonymous)'
  return url === '' ? name : `${name}  ${url.replace(root, '').replace(/^.*\/node_modules\//, '')}:${lineNumber + 1}`
}
