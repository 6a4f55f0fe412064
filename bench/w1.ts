// W1: realtime sessions over WebSocket: CPU time per relayed frame, and memory per open, silent session.
import { setTimeout as delay } from 'node:timers/promises'
import { Child } from './child.ts'
import type { Rig } from './contest.ts'
import type { Contestant } from './contestant.ts'
import { nginx, startNginx } from './nginx.ts'
import { residentOf } from './proc.ts'
import type { Report } from './report.ts'
import type { SessionJob, SessionsSeen } from './sessions-load.ts'
import { others, startSluice } from './sluice.ts'
import { show, slope, spread } from './spread.ts'

const sessions = 100
/** Milliseconds between two frames of one side. */
const gap = 20

export const title = `W1 realtime: ${sessions} sessions with a 300 B frame every ${gap} ms from either side, and sessions that are silent`

/** The result of one contestant in one round: microseconds per frame, and KiB per session. */
interface Sample {
  cpu: number
  user: number
  sys: number
  rate: number
  idle: number
}

/** Runs the scenario. Every round starts new processes, because a process does not give back memory once it has it. */
export async function run(rig: Rig): Promise<Report> {
  const upstream = await Child.start<{ port: number }>('sessions-upstream.ts', [], 'rest')
  const load = await Child.start<object>('sessions-load.ts', [], 'rest')
  const own: Rig = { ...rig, upstream: { child: upstream.child, port: upstream.ready.port }, load: load.child }
  const samples = new Map<string, Sample[]>()
  const problems: string[] = []
  const variant = { endpoints: ['realtime'] }
  const starters = [
    ...(nginx ? [() => startNginx(own.upstream.port, own.directory, true)] : []),
    () => startSluice(own, variant),
    ...others(own, variant)
  ]
  for (let round = 1; round <= rig.rounds; round++) {
    for (const start of starters) {
      const contestant = await start()
      const sample = await measure(own, contestant, problems)
      await contestant.stop()
      samples.set(contestant.name, [...(samples.get(contestant.name) ?? []), sample])
      rig.progress(
        `w1 round ${round}/${rig.rounds} ${contestant.name}: ${sample.cpu.toFixed(1)} µs per frame, ${sample.idle.toFixed(1)} KiB per session`
      )
    }
  }
  await Promise.all([upstream.child.stop(), load.child.stop()])
  const [[yardstick, base]] = samples as unknown as [[string, Sample[]]]
  const rows = [...samples].map(([name, of]) => {
    const column = (pick: (sample: Sample, round: number) => number) => spread(of.map(pick))
    return [
      name,
      show(
        column(({ cpu }) => cpu),
        1
      ),
      column(({ user }) => user).median.toFixed(1),
      column(({ sys }) => sys).median.toFixed(1),
      show(
        column(({ cpu }, round) => cpu / base[round]!.cpu),
        2
      ),
      Math.round(column(({ rate }) => rate).median).toLocaleString('en'),
      show(
        column(({ idle }) => idle),
        1
      ),
      show(
        column(({ idle }, round) => idle / base[round]!.idle),
        2
      )
    ]
  })
  return {
    id: 'w1',
    title,
    problems,
    rows,
    columns: [
      'gateway',
      'CPU µs per frame',
      'user',
      'sys',
      `× ${yardstick}`,
      'frames/s',
      'KiB per silent session',
      `× ${yardstick}`
    ],
    notes: [
      'nginx passes bytes on and reads no frame. Sluice checks each, shows it to every plugin, and knows what a response cost.'
    ]
  }
}

async function measure(
  { upstream, load, quick, warm, seconds }: Rig,
  { port, pid, name, collect }: Contestant,
  problems: string[]
): Promise<Sample> {
  const ask = async (job: Partial<SessionJob>): Promise<SessionsSeen> => {
    const seen = await load.ask<SessionsSeen>({ port, pid, sessions, gap: 0, warm: 0, seconds: 0, ...job })
    if (seen.failed > 0) problems.push(`w1, ${name}: ${seen.failed} failures: ${seen.reason}`)
    return seen
  }
  await ask({})
  await upstream.child.ask<object>({ gap })
  const { cpu, frames, seconds: passed } = await ask({ gap, warm, seconds })
  await upstream.child.ask<object>({ gap: 0 })
  const points: [number, number][] = []
  for (const open of quick ? [300, 600, 900] : [4000, 6000, 8000]) {
    await ask({ sessions: open })
    await collect()
    await delay(500)
    points.push([open, residentOf(pid)])
  }
  await ask({ sessions: 0 })
  return {
    cpu: (cpu.user + cpu.sys) / frames,
    user: cpu.user / frames,
    sys: cpu.sys / frames,
    rate: frames / passed,
    idle: slope(points)
  }
}
