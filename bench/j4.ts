// J4: large prompts with a small answer: CPU time per request, peak memory, and time to the first byte.
import { contest, ratios } from './contest.ts'
import type { Outcome, Rig, Workload } from './contest.ts'
import { start, starters } from './line-up.ts'
import type { Measured } from './load.ts'
import { upstreamModel } from './payload.ts'
import type { Prompt } from './payload.ts'
import { peakOf, residentOf } from './proc.ts'
import type { Report } from './report.ts'
import { show, spread } from './spread.ts'

const answerSize = 1200
/** The number of connections while CPU time is measured, and while peak memory is. */
const connections = 16
const connectionsAtPeak = 64
/**
 * `share`: the part of the usual window that each payload gets, because there are many; only the payload of the
 * milestone has all of it. `shortest`: the least seconds of a window.
 */
const share = 0.15
const shortest = 0.3

const payloads: readonly { name: string; prompt: Omit<Prompt, 'keys'> }[] = [
  { name: '100 KB text', prompt: { size: 100_000, content: 'text' } },
  { name: '1 MB text', prompt: { size: 1_000_000, content: 'text' } },
  { name: '4 MB image', prompt: { size: 4_000_000, content: 'image' } }
]

const milestone = { payload: '1 MB text', ratio: 2, goal: 1.2 }

export const title =
  'J4 big prompts: 100 KB and 1 MB of text, a 4 MB inline image; `model` and `stream` first or last; 1.2 KB out'

/** Runs the scenario. The model has another name at the upstream, so Sluice has to change every body. */
export async function run(rig: Rig): Promise<Report> {
  const problems: string[] = []
  const peaks = await measurePeaks(rig, problems)
  await using gateways = await start(starters(rig, false, { upstreamModel }))
  const yardstick = gateways.list[0]!
  const rows: string[][] = []
  const notes: string[] = []
  // Gateways reach full speed only after some seconds, which the short windows do not have, so they are warmed up
  // first.
  const [{ prompt: first }] = payloads as [(typeof payloads)[number]]
  problems.push(
    ...(
      await contest(
        { ...rig, rounds: 0 },
        'j4 warm-up',
        workload({ ...first, keys: 'first' }, connections),
        gateways.list
      )
    ).problems
  )
  for (const { name, prompt } of payloads) {
    for (const keys of ['first', 'last'] as const) {
      const part = name === milestone.payload ? 1 : share
      const of = async (connections: number, seconds: number): Promise<Outcome> => {
        const outcome = await contest(
          { ...rig, warm: rig.warm * part, seconds },
          `j4 ${name}, keys ${keys}, ${connections} connections`,
          workload({ ...prompt, keys }, connections),
          gateways.list,
          false
        )
        problems.push(...outcome.problems)
        return outcome
      }
      const busy = await of(connections, Math.max(shortest, rig.seconds * part))
      const alone = await of(1, shortest)
      const peak = keys === 'first' ? peaks.get(name)! : undefined
      for (const [at, gateway] of gateways.list.entries())
        rows.push([`${name}, keys ${keys}`, gateway.name, ...figures(busy, alone, at), peak?.[at] ?? ''])
      if (name === milestone.payload) {
        const times = ratios(busy.samples.get(gateways.list.at(-1)!)!, busy.samples.get(yardstick)!)
        notes.push(
          `${name}, keys ${keys}: Sluice takes ${times.median.toFixed(2)} × ${yardstick.name}; the milestone is ${milestone.ratio} ×, the goal ${milestone.goal} ×.`
        )
      }
    }
  }
  return {
    id: 'j4',
    title,
    rows,
    notes,
    problems,
    columns: [
      'payload',
      'gateway',
      'CPU µs per request',
      'user',
      'sys',
      `× ${yardstick.name}`,
      'requests/s',
      'first byte ms',
      `after ${yardstick.name}`,
      `MiB above idle at ${connectionsAtPeak}`
    ]
  }
}

/** A load of connections without pauses, all with the same prompt. */
function workload(prompt: Prompt, connections: number): Workload {
  const behaviour: Workload['behaviour'] = () => ({ kind: 'json', size: answerSize, prompt })
  const job: Workload['job'] = ({ warm, seconds }, { port, pid }) => ({
    kind: 'json',
    port,
    pid,
    connections,
    requests: { prompt },
    answerSize,
    warm,
    seconds
  })
  const ceiling: Workload['ceiling'] = (rig) => ({
    behaviour: behaviour(rig),
    job: job(rig, { port: rig.upstream.port, pid: rig.upstream.child.pid })
  })
  return { unit: 'request', behaviour, job, ...(connections > 1 && { ceiling }) }
}

/** The cells of one gateway: CPU time under load, and time to the first byte without other load. */
function figures(busy: Outcome, alone: Outcome, at: number): string[] {
  const [all, lonely] = [[...busy.samples.values()], [...alone.samples.values()]]
  const of = all[at]!
  return [
    show(spread(of.map(({ cpu }) => cpu)), 0),
    spread(of.map(({ user }) => user)).median.toFixed(0),
    spread(of.map(({ sys }) => sys)).median.toFixed(0),
    show(ratios(of, all[0]!), 2),
    Math.round(spread(of.map(({ rate }) => rate)).median).toLocaleString('en'),
    // The answer is one small write, so it is complete when its first byte arrives.
    spread(lonely[at]!.map(({ p50 }) => p50)).median.toFixed(2),
    spread(lonely[at]!.map(({ p50 }, round) => p50 - lonely[0]![round]!.p50)).median.toFixed(2)
  ]
}

/**
 * For every payload and gateway, the peak memory above that before the first request, in MiB. Each measurement has a
 * new process.
 */
async function measurePeaks(rig: Rig, problems: string[]): Promise<Map<string, string[]>> {
  const peaks = new Map<string, string[]>()
  for (const { name, prompt } of payloads) {
    const cells: string[] = []
    peaks.set(name, cells)
    const load = workload({ ...prompt, keys: 'first' }, connectionsAtPeak)
    for (const start of starters({ ...rig, profile: undefined }, false, { upstreamModel })) {
      const gateway = await start()
      const idle = residentOf(gateway.pid)
      await rig.upstream.child.ask<object>(load.behaviour(rig))
      const { failed, reason } = await rig.load.ask<Measured>(load.job({ ...rig, seconds: rig.seconds / 4 }, gateway))
      cells.push(((peakOf(gateway.pid) - idle) / 1024).toFixed(0))
      if (failed > 0)
        problems.push(
          `j4 ${name}, ${gateway.name}, ${connectionsAtPeak} connections: ${failed} answers failed: ${reason}`
        )
      rig.progress(`j4 ${name}, ${gateway.name}: ${cells.at(-1)} MiB above idle`)
      await gateway.stop()
    }
  }
  return peaks
}
