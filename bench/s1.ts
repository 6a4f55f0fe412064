// S1: steady streams in which each event arrives in a read of its own: CPU time per event.
import { contest, cpuReport } from './contest.ts'
import type { Rig, Workload } from './contest.ts'
import type { Target } from './contestant.ts'
import { start, starters } from './line-up.ts'
import type { Job } from './load.ts'
import type { Report } from './report.ts'

const requestSize = 800
/** Milliseconds between two events of a stream. */
const gap = 20
/** Seconds that streams last longer than the window, so that none ends in it. */
const after = 0.3

/** 200 streams, each with an event of 302 bytes every 20 ms. */
export const steadyStreams: Workload = {
  unit: 'event',
  behaviour: (rig) => ({ kind: 'paced', events: eventsIn(rig, gap), gap }),
  job: paced,
  ceiling(rig) {
    // This offers 100,000 events per second, more than two Node processes on one CPU can do.
    const short = { ...rig, warm: 0.3, seconds: 0.4 }
    const to = { port: rig.upstream.port, pid: rig.upstream.child.pid }
    const events = eventsIn(short, 2)
    return { behaviour: { kind: 'paced', events, gap: 2 }, job: { ...paced(short, to), events } }
  }
}

function paced(rig: Rig, { port, pid, speaks = 'chat' }: Target): Job & { kind: 'paced' } {
  return {
    kind: 'paced',
    port,
    pid,
    streams: 200,
    events: eventsIn(rig, gap),
    requestSize,
    speaks,
    warm: rig.warm,
    seconds: rig.seconds
  }
}

function eventsIn({ warm, seconds }: Rig, gap: number): number {
  return Math.ceil(((warm + seconds + after) * 1000) / gap)
}

export const title = 'S1 steady streams: 200 streams, 302 B events, 20 ms gap'

/** Runs it. */
export async function run(rig: Rig): Promise<Report> {
  await using gateways = await start(starters(rig, true))
  return cpuReport('s1', title, steadyStreams, await contest(rig, 's1', steadyStreams, gateways.list))
}
