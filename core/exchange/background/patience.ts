// How long somebody who asks about work waits for it.

/** Milliseconds that somebody waits for an upstream's answer. */
const patience = 5000

/** Waits for a promise, but not for long. Never rejects: rejections are its owner's. */
export async function forAWhile(promise: Promise<unknown>): Promise<void> {
  let timer: NodeJS.Timeout | undefined
  await Promise.race([promise.catch(() => {}), new Promise((resolve) => (timer = setTimeout(resolve, patience)))])
  clearTimeout(timer)
}
