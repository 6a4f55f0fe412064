// Layers: where the CPU time of a request and of an event goes, in the kernel, V8, Node and each room of ours, sampled
// by `perf` on all threads.
import { execFileSync, spawn } from 'node:child_process'
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { run as put } from './contest.ts'
import type { Rig, Workload } from './contest.ts'
import type { Contestant } from './contestant.ts'
import { smallJson } from './j1.ts'
import { start } from './line-up.ts'
import type { Report } from './report.ts'
import { steadyStreams } from './s1.ts'
import { startSluice } from './sluice.ts'

/** The program that it needs. */
export const needs = 'perf'
export const title = 'Layers: where the time of J1 and S1 goes, all threads'

/** Samples in a second of CPU time. */
const frequency = 1999
/** Layers below this share of both loads are shown together. */
const least = 0.005
const rest = 'the rest'

/** Runs it. */
export async function run(rig: Rig): Promise<Report> {
  const loads: Readonly<Record<string, Workload>> = { 'J1 µs per request': smallJson, 'S1 µs per event': steadyStreams }
  const columns: Layers[] = []
  for (const workload of Object.values(loads)) {
    // With a map of what V8 has compiled, perf knows functions of JavaScript by their names and files.
    const flags = ['--perf-basic-prof', '--interpreted-frames-native-stack']
    await using gateways = await start([() => startSluice(rig, { flags })])
    const gateway = gateways.list[0]!
    await put(rig, workload, gateway)
    columns.push(await layersOf(rig, workload, gateway))
    rmSync(`/tmp/perf-${gateway.pid}.map`, { force: true })
  }
  const sums = columns.map((layers) => sum(layers.values()))
  const share = (name: string): number[] => columns.map((layers, at) => (layers.get(name) ?? 0) / sums[at]!)
  const names = [...new Set(columns.flatMap((layers) => [...layers.keys()]))]
  const shown = names
    .filter((name) => name !== rest && Math.max(...share(name)) > least)
    .toSorted((a, b) => sum(share(b)) - sum(share(a)))
  const row = (name: string, times: readonly number[]): string[] => [name, ...times.map((time) => time.toFixed(1))]
  return {
    id: 'layers',
    title,
    columns: ['layer', ...Object.keys(loads)],
    rows: [
      ...shown.map((name) =>
        row(
          name,
          columns.map((layers) => layers.get(name) ?? 0)
        )
      ),
      row(
        rest,
        columns.map((layers, at) => sums[at]! - sum(shown.map((name) => layers.get(name) ?? 0)))
      ),
      row('all', sums)
    ],
    notes: [
      'Samples of the CPU clock under load; their shares are of the CPU time per unit that /proc counts in the same ' +
        'window. A room has what its own functions take, without what they call in other rows. Counting costs some itself.'
    ],
    problems: []
  }
}

/** Microseconds per unit, by layer. */
type Layers = Map<string, number>

function sum(numbers: Iterable<number>): number {
  let total = 0
  for (const number of numbers) total += number
  return total
}

async function layersOf(rig: Rig, workload: Workload, gateway: Contestant): Promise<Layers> {
  const data = join(rig.directory, `perf-${workload.unit}`)
  const running = put(rig, workload, gateway)
  await sleep(rig.warm * 1000)
  const args = ['record', '-q', '-F', String(frequency), '-e', 'task-clock', '-o', data, '-p', String(gateway.pid)]
  const recorder = spawn('perf', [...args, '--', 'sleep', String(rig.seconds * 0.8)], { stdio: 'ignore' })
  const recorded = new Promise((resolve, reject) => recorder.once('error', reject).once('close', resolve))
  const [{ cpu, count }] = await Promise.all([running, recorded])
  const text = execFileSync('perf', ['script', '-i', data, '-F', 'comm,ip,sym,dso'], {
    encoding: 'utf8',
    maxBuffer: 2 ** 30,
    stdio: ['ignore', 'pipe', 'ignore']
  })
  const samples = [...text.matchAll(/^ *(.+?) +[0-9a-f]+ (.*) \((.*)\)$/gm)]
  const each = (cpu.user + cpu.sys) / count / samples.length
  const layers: Layers = new Map()
  for (const [, thread, symbol, object] of samples) {
    const layer = layerOf(thread!, symbol!, object!)
    layers.set(layer, (layers.get(layer) ?? 0) + each)
  }
  return layers
}

/** Layers that are known by the names of their functions; the first that fits. */
const known: readonly (readonly [string, RegExp])[] = [
  ["Node's JavaScript", /\bnode:/],
  ['V8 builtins', /^(Builtins_|Builtin:|BytecodeHandler:|Stub:)/],
  ['SQLite', /^(sqlite3|vdbe|btree|pager|wal[A-Z])/],
  ['V8 collector', /Scaveng|MarkCompact|Sweep|Evacuat|Marking|GCTracer|YoungGeneration|heap::base/],
  ['V8 compilers', /maglev|compiler::|interpreter::|baseline::|Parser|Turbo/],
  ['V8 runtime', /v8::/],
  ['Node and libuv', /node::|^uv_|^uv__/]
]

/** `object`: the file that has the function; for JavaScript, the map of the process. */
function layerOf(thread: string, symbol: string, object: string): string {
  if (object.includes('kernel') || object === '[vdso]') return 'kernel'
  const file = / (?:file:\/\/)?(\/\S+?):\d+/.exec(symbol)?.[1]
  if (file !== undefined) return roomOf(file)
  // These threads compile and collect, whatever they call for it.
  const layer = known.find(([, pattern]) => pattern.test(symbol))?.[0]
  if (layer !== undefined) return layer
  if (thread.startsWith('V8Worker')) return 'V8 collector'
  return /libc|libstdc|ld-linux/.test(object) ? 'C library' : object.endsWith('/node') ? 'Node and libuv' : rest
}

const root = new URL('..', import.meta.url).pathname

/** `core/exchange/answers/relay.ts` is in `core/exchange`. */
function roomOf(file: string): string {
  if (file.includes('/node_modules/')) return 'packages'
  return file.replace(root, '').split('/').slice(0, 2).join('/').replace(/\.ts$/, '')
}
