// The gateways of a scenario, and how each is started.
import { Child } from './child.ts'
import type { Rig } from './contest.ts'
import type { Contestant } from './contestant.ts'
import { nginx, startNginx } from './nginx.ts'
import { others, startSluice } from './sluice.ts'
import type { Variant } from './sluice.ts'

/** Gateways that are stopped when the scenario disposes of this. */
export interface LineUp<T extends Contestant = Contestant> extends AsyncDisposable {
  list: T[]
}

/**
 * One starting function per gateway: nginx if it is installed, the bare relay, that of our own HTTP where it is asked
 * for, Sluice, and Sluice of other checkouts.
 * The others are compared with the first.
 */
export function starters(rig: Rig, streaming: boolean, variant: Partial<Variant> = {}): (() => Promise<Contestant>)[] {
  return [
    ...(nginx ? [() => startNginx(rig.upstream.port, rig.directory, streaming)] : []),
    () => startRelay(rig, 'bare relay', 'bare.ts'),
    ...(rig.floor ? [() => startRelay(rig, 'floor', 'floor.ts')] : []),
    () => startSluice(rig, variant),
    ...others(rig, variant)
  ]
}

/** Starts all of them. */
export async function start<T extends Contestant>(starters: readonly (() => Promise<T>)[]): Promise<LineUp<T>> {
  const list: T[] = []
  for (const starter of starters) list.push(await starter())
  return {
    list,
    [Symbol.asyncDispose]: async () => void (await Promise.all(list.map((contestant) => contestant.stop())))
  }
}

async function startRelay({ upstream }: Rig, name: string, entry: string): Promise<Contestant> {
  const { child, ready } = await Child.start<{ port: number }>(
    entry,
    [`http://127.0.0.1:${upstream.port}`],
    'gateway',
    ['--expose-gc']
  )
  return {
    name,
    pid: child.pid,
    port: ready.port,
    collect: async () => (await child.ask<{ heap: number }>({})).heap,
    stop: () => child.stop()
  }
}
