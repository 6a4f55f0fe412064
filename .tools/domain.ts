// Stands in for the library by which tap learns whose test threw what nobody caught. That one follows every promise of
// a process by asynchronous hooks, the gateway's too, which takes a sixth of all time. Tests of a file run one after
// the other: what is thrown is the innermost's that has begun and not ended.
import { executionAsyncResource } from 'node:async_hooks'

type OnError = (error: unknown, origin: string) => void

/** Those that have begun, the innermost last. */
const running: Domain[] = []

/**
 * A test that is told of errors while it runs. It is made in the scope of its asynchronous resource, and begins when
 * something else runs in that.
 */
export class Domain {
  readonly onerror: OnError
  #ended = false

  constructor(onerror: OnError) {
    this.onerror = onerror
    const scope = executionAsyncResource() as { runInAsyncScope?: (...args: unknown[]) => unknown }
    const run = scope.runInAsyncScope
    if (!run) return void this.#begin()
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
  // What a test has handlers for is not taken from it.
  if (
    running.length === 0 ||
    process.hasUncaughtExceptionCaptureCallback() ||
    process.listenerCount('uncaughtException') > 0
  )
    return
  running.at(-1)!.onerror(error, origin)
  // Node asks for it next, and goes on.
  process.setUncaughtExceptionCaptureCallback(() => process.setUncaughtExceptionCaptureCallback(null))
})
