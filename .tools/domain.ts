// Replaces the library that tells tap which test an uncaught error belongs to. The library follows every promise of a
// process with asynchronous hooks, which takes a sixth of all time. The tests of a file run one after another, so an
// uncaught error belongs to the innermost test that has begun and not ended.
import { executionAsyncResource } from 'node:async_hooks'

type OnError = (error: unknown, origin: string) => void

/** The tests that have begun, the innermost last. */
const running: Domain[] = []

/**
 * A test that receives uncaught errors while it runs. It is created in the scope of the test's asynchronous resource,
 * and begins when something else runs in that scope.
 */
export class Domain {
  readonly onerror: OnError
  #ended = false

  constructor(onerror: OnError) {
    this.onerror = onerror
    const scope = executionAsyncResource() as { runInAsyncScope?: (...args: unknown[]) => unknown }
    const run = scope.runInAsyncScope
    if (!run) {
      this.#begin()
      return
    }
    scope.runInAsyncScope = (...args) => {
      this.#begin()
      scope.runInAsyncScope = run
      return run.apply(scope, args)
    }
  }

  destroy(): void {
    this.#ended = true
    const place = running.indexOf(this)
    if (place >= 0) running.splice(place, 1)
  }

  #begin(): void {
    if (!this.#ended) running.push(this)
  }
}

process.on('uncaughtExceptionMonitor', (error, origin) => {
  // A test that handles uncaught errors itself keeps them.
  if (
    running.length === 0 ||
    process.hasUncaughtExceptionCaptureCallback() ||
    process.listenerCount('uncaughtException') > 0
  )
    return
  running.at(-1)!.onerror(error, origin)
  // Node calls this callback next, and then goes on instead of ending the process.
  process.setUncaughtExceptionCaptureCallback(() => process.setUncaughtExceptionCaptureCallback(null))
})
