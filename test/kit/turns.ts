// Measures how long work in this process holds the event loop.

/** A text whose parsing takes {@link quietMs} of CPU time on a machine without other work. */
const sample = JSON.stringify(Array.from({ length: 10_000 }, (_, id) => ({ id, name: `n${id}`, list: [id, id + 1] })))
const quietMs = 5

/**
 * How many times as long the same code takes now as on a quiet machine, 1 at least: what shares the caches and the
 * memory with this process, or the machine below it with this one, makes CPU time longer too.
 */
export function slowness(): number {
  const taken = [0, 1].map(() => {
    const before = used()
    JSON.parse(sample)
    return used() - before
  })
  return Math.max(1, Math.min(...taken) / quietMs)
}

/**
 * Runs work, and returns the most CPU time that it used between two turns of the event loop, in milliseconds of a quiet
 * machine. It does not include the time of other programs.
 */
export async function mostHeld(work: () => Promise<unknown>): Promise<number> {
  let [most, before] = [0, used()]
  let looking = true
  const look = (): void => {
    const now = used()
    most = Math.max(most, now - before)
    before = now
    if (looking) setImmediate(look)
  }
  setImmediate(look)
  await work()
  looking = false
  look()
  return most / slowness()
}

/**
 * Does work until it uses less than `most` milliseconds of CPU time, up to five times, and returns the least, in
 * milliseconds of a quiet machine. Only this thread counts. What code costs, it costs each time; what a busy machine
 * adds, it adds at random.
 */
export function leastUsed(most: number, work: () => void): number {
  let least = Infinity
  for (let turn = 0; turn < 5 && least >= most; turn++) {
    const before = used()
    work()
    least = Math.min(least, (used() - before) / slowness())
  }
  return least
}

/** The CPU time of this thread so far, in milliseconds. */
export function used(): number {
  const { user, system } = process.threadCpuUsage()
  return (user + system) / 1000
}
