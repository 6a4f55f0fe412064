// Runs several gateways in turn under the same load, for several rounds. Every scenario is built on this.
import type { Child } from './child.ts'
import type { Contestant, Target } from './contestant.ts'
import type { Job, Measured } from './load.ts'
import type { Report } from './report.ts'
import { show, spread } from './spread.ts'
import type { Spread } from './spread.ts'
import type { Behaviour } from './upstream.ts'

/** What the scenarios share: one upstream and one load process for the whole run. */
export interface Rig {
  upstream: { child: Child; port: number }
  load: Child
  /** For files of the run; removed at the end of the run. */
  directory: string
  rounds: number
  /** Seconds of each measured window, and seconds of load before it. */
  seconds: number
  warm: number
  /** Other checkouts of Sluice that are measured in the same rounds. */
  against: readonly string[]
  /** Whether a relay of our own HTTP and nothing else takes part where gateways are compared. */
  floor: boolean
  /** True for a quick look with fewer streams. */
  quick: boolean
  /** The units per second that upstream and load reach without a gateway, measured once per run. */
  ceilings: Map<Workload, number>
  /** Where CPU profiles of the Sluice processes go; undefined when none are taken. */
  profile: string | undefined
  progress(line: string): void
}

/** A load whose cost is CPU time per unit. */
export interface Workload {
  unit: 'request' | 'event'
  behaviour(rig: Rig): Behaviour
  job(rig: Rig, to: Target): Job
  /**
   * The same load without pauses and without a gateway, to measure how much the upstream and the load generator can do.
   * Absent for scenarios that offer little load on purpose.
   */
  ceiling?(rig: Rig): { behaviour: Behaviour; job: Job }
}

/** The result of one contestant in one round. Times are in microseconds per unit. */
export interface Sample {
  cpu: number
  user: number
  sys: number
  /** The part of `cpu` that threads other than the main thread used. */
  beside: number
  /** CPU time of each of the servers that it uses. */
  servers: readonly number[]
  rate: number
  p50: number
  p99: number
}

/** Every sample of every contestant by round, and the problems on the way. */
export interface Outcome {
  samples: Map<Contestant, Sample[]>
  problems: string[]
  notes: string[]
}

/** Warms every contestant up once, unless `warmUp` is false, then measures them in turns: A B C A B C. */
export async function contest(
  rig: Rig,
  title: string,
  workload: Workload,
  contestants: readonly Contestant[],
  warmUp = true
): Promise<Outcome> {
  const outcome: Outcome = {
    samples: new Map(contestants.map((contestant) => [contestant, []])),
    problems: [],
    notes: []
  }
  const ceiling = await highest(rig, workload)
  if (ceiling < Infinity)
    rig.progress(`${title}: upstream and load alone do ${Math.round(ceiling)} ${workload.unit}s/s`)
  for (let round = warmUp ? 0 : 1; round <= rig.rounds; round++) {
    for (const contestant of contestants) {
      const measured = await run(rig, workload, contestant)
      if (measured.failed > 0)
        outcome.problems.push(`${title}, ${contestant.name}: ${measured.failed} answers failed: ${measured.reason}`)
      if (round === 0) continue
      const sample = sampleOf(measured)
      outcome.samples.get(contestant)!.push(sample)
      rig.progress(
        `${title} round ${round}/${rig.rounds} ${contestant.name}: ${sample.cpu.toFixed(1)} µs per ${workload.unit}, ${Math.round(sample.rate)}/s`
      )
    }
  }
  for (const [{ name }, samples] of outcome.samples) {
    const { median } = spread(samples.map(({ rate }) => rate))
    if (median < ceiling * 0.9) continue
    outcome.notes.push(
      `${name} is within 10 % of what upstream and load can do together (${Math.round(ceiling)} ${workload.unit}s/s): ` +
        'its rate says nothing, its CPU was not all used, and CPU time per unit may look a little higher than at saturation.'
    )
  }
  return outcome
}

/**
 * The table of an {@link Outcome}: CPU time per unit, also compared with the first contestant of the same round. Of
 * events it says how long they took from the upstream to the client.
 */
export function cpuReport(
  id: string,
  title: string,
  workload: Workload,
  { samples, problems, notes }: Outcome,
  compared: 'ratio' | 'difference' = 'ratio'
): Report {
  const [[yardstick, base]] = samples as unknown as [[Contestant, Sample[]]]
  const relayed = workload.unit === 'event'
  const rows = [...samples].map(([{ name }, of]) => {
    const column = (pick: (sample: Sample, round: number) => number) => spread(of.map(pick))
    const times = column(({ p99 }, round) => p99 / base[round]!.p99)
    return [
      name,
      show(
        column(({ cpu }) => cpu),
        1
      ),
      column(({ user }) => user).median.toFixed(1),
      column(({ sys }) => sys).median.toFixed(1),
      column(({ beside }) => beside).median.toFixed(1),
      compared === 'ratio'
        ? show(ratios(of, base), 2)
        : show(spread(of.map(({ cpu }, round) => cpu - base[round]!.cpu)), 1),
      Math.round(column(({ rate }) => rate).median).toLocaleString('en'),
      column(({ p50 }) => p50).median.toFixed(2),
      column(({ p99 }) => p99).median.toFixed(2),
      ...(relayed ? [show(times, 1)] : [])
    ]
  })
  const latency = relayed ? 'relay ms' : 'ms'
  return {
    id,
    title,
    problems,
    notes,
    columns: [
      'gateway',
      `CPU µs per ${workload.unit}`,
      'user',
      'sys',
      'other threads',
      compared === 'ratio' ? `× ${yardstick.name}` : 'µs more',
      `${workload.unit}s/s`,
      `p50 ${latency}`,
      `p99 ${latency}`,
      ...(relayed ? [`p99 × ${yardstick.name}`] : [])
    ],
    rows
  }
}

/** CPU time of samples as a multiple of others, round by round. */
export function ratios(samples: readonly Sample[], base: readonly Sample[]): Spread {
  return spread(samples.map(({ cpu }, round) => cpu / base[round]!.cpu))
}

/** Puts the load on one gateway, once. */
export async function run(rig: Rig, workload: Workload, to: Target): Promise<Measured> {
  await rig.upstream.child.ask<object>(workload.behaviour(rig))
  return rig.load.ask<Measured>(workload.job(rig, to))
}

async function highest(rig: Rig, workload: Workload): Promise<number> {
  const known = rig.ceilings.get(workload)
  if (known !== undefined) return known
  if (!workload.ceiling) return Infinity
  const { behaviour, job } = workload.ceiling(rig)
  await rig.upstream.child.ask<object>(behaviour)
  const { count, seconds, failed, reason } = await rig.load.ask<Measured>(job)
  if (failed > 0) throw new Error(`the upstream alone failed ${failed} times: ${reason}`)
  rig.ceilings.set(workload, count / seconds)
  return count / seconds
}

function sampleOf({ cpu, servers, count, seconds, p50, p99 }: Measured): Sample {
  return {
    cpu: (cpu.user + cpu.sys) / count,
    user: cpu.user / count,
    sys: cpu.sys / count,
    beside: cpu.beside / count,
    servers: servers.map((used) => used / count),
    rate: count / seconds,
    p50: p50 / 1000,
    p99: p99 / 1000
  }
}
