// S4: open but silent streams: resident memory per stream, as the slope over three numbers of streams.
import { setTimeout as delay } from 'node:timers/promises'
import type { Rig } from './contest.ts'
import type { Contestant } from './contestant.ts'
import { starters } from './line-up.ts'
import type { Measured } from './load.ts'
import { residentOf } from './proc.ts'
import type { Report } from './report.ts'
import { show, slope, spread } from './spread.ts'

const requestSize = 800

export const title = 'S4 idle streams: resident memory per open stream'

/** The result of one contestant in one round, in KiB. */
interface Sample {
  perStream: number
  /** The part of it in the JavaScript heap; undefined for a gateway without one. */
  heapPerStream: number | undefined
  /** With the largest number of streams. */
  resident: number
}

/** Runs the scenario. Every round starts new processes, because a process does not give back memory once it has it. */
export async function run(rig: Rig): Promise<Report> {
  const points = rig.quick ? [500, 1000, 2000] : [4000, 6000, 8000]
  // Opening thousands of streams takes long, and the figures hardly differ between rounds.
  const rounds = Math.min(rig.rounds, 2)
  const samples = new Map<string, Sample[]>()
  const problems: string[] = []
  for (let round = 1; round <= rounds; round++) {
    for (const start of starters(rig, true)) {
      const contestant = await start()
      const sample = await hold(rig, contestant, points, problems)
      await contestant.stop()
      samples.set(contestant.name, [...(samples.get(contestant.name) ?? []), sample])
      rig.progress(`s4 round ${round}/${rounds} ${contestant.name}: ${sample.perStream.toFixed(1)} KiB per stream`)
    }
  }
  const [[yardstick, base]] = samples as unknown as [[string, Sample[]]]
  return {
    id: 's4',
    title,
    problems,
    columns: ['gateway', 'KiB per stream', 'JavaScript heap', `× ${yardstick}`, `MiB at ${points.at(-1)}`],
    rows: [...samples].map(([name, of]) => [
      name,
      show(spread(of.map(({ perStream }) => perStream)), 1),
      of[0]!.heapPerStream === undefined
        ? '–'
        : spread(of.map(({ heapPerStream }) => heapPerStream!)).median.toFixed(1),
      show(spread(of.map(({ perStream }, round) => perStream / base[round]!.perStream)), 2),
      (spread(of.map(({ resident }) => resident)).median / 1024).toFixed(0)
    ]),
    notes: [
      `Slope over ${points.join(', ')} open streams, after one garbage collection each; the kernel's socket buffers are not in it, for any of them.`
    ]
  }
}

async function hold(rig: Rig, contestant: Contestant, points: readonly number[], problems: string[]): Promise<Sample> {
  const resident: [number, number][] = []
  const heap: [number, number][] = []
  const check = ({ failed, reason }: Measured) => {
    if (failed > 0) problems.push(`s4, ${contestant.name}: ${failed} streams failed: ${reason}`)
  }
  await rig.upstream.child.ask<object>({ kind: 'held' })
  for (const streams of points) {
    check(await rig.load.ask<Measured>({ kind: 'hold', port: contestant.port, streams, requestSize }))
    const left = await contestant.collect()
    if (left !== undefined) heap.push([streams, left])
    resident.push([streams, await settled(contestant.pid)])
  }
  // Setting a behaviour ends the held streams; each must then end properly.
  await rig.upstream.child.ask<object>({ kind: 'held' })
  check(await rig.load.ask<Measured>({ kind: 'release' }))
  return {
    perStream: slope(resident),
    heapPerStream: heap.length > 0 ? slope(heap) : undefined,
    resident: resident.at(-1)![1]
  }
}

/** Resident memory once it changes by less than 1 % in 200 ms. */
async function settled(pid: number): Promise<number> {
  let last = residentOf(pid)
  for (let tries = 0; tries < 15; tries++) {
    await delay(200)
    const now = residentOf(pid)
    if (Math.abs(now - last) < last * 0.01) return now
    last = now
  }
  return last
}
