// Measures how long work in this process holds the event loop.

/**
 * Runs work, and returns the most CPU time that it used between two turns of the event loop, in milliseconds. It does
 * not include the time of other programs.
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
  return most
}

/** The CPU time of this thread so far, in milliseconds. */
export function used(): number {
  const { user, system } = process.threadCpuUsage()
  return (user + system) / 1000
}
