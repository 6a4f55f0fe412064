// A preload for a command: once the command has begun to tell of its progress, its work stands still until the file in
// HOLD is there. Without HOLD the command ends with 99 when it begins to tell.
import fs from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import { DatabaseSync } from 'node:sqlite'
import threads, { isMainThread } from 'node:worker_threads'

const { HOLD: file } = process.env
/** Longer than any test waits. */
const longest = 300_000
let begun = false
let held = false

function hold(): void {
  if (!begun || held) return
  held = true
  const from = performance.now()
  const never = new Int32Array(new SharedArrayBuffer(4))
  while (!fs.existsSync(file!) && performance.now() - from < longest) Atomics.wait(never, 0, 0, 50)
}

if (isMainThread) {
  const { Worker } = threads
  threads.Worker = class extends Worker {
    constructor(name: string | URL, options?: threads.WorkerOptions) {
      super(name, options)
      if (!String(name).includes('progress-thread')) return
      if (file === undefined) process.exit(99)
      begun = true
      // For what waits for others, and reads no file.
      setImmediate(hold)
    }
  }
  const { prepare } = DatabaseSync.prototype
  DatabaseSync.prototype.prepare = function (sql, ...rest) {
    hold()
    return prepare.call(this, sql, ...rest)
  }
  const { readFileSync } = fs
  fs.readFileSync = ((...args: Parameters<typeof readFileSync>) => {
    hold()
    return readFileSync(...args)
  }) as typeof readFileSync
  syncBuiltinESMExports()
}
