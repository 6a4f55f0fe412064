// Threads for tests of the shared memory: what each does is a function of `tasks.ts`.
import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import type { Test } from 'tap'
import type { Tasks } from './tasks.ts'

/** What a task is started with. `scratch` is memory for the test itself. */
export interface Order<Name extends keyof Tasks = keyof Tasks> {
  readonly task: Name
  readonly arena: SharedArrayBuffer
  readonly scratch: SharedArrayBuffer
  readonly seat: number
  readonly with: Parameters<Tasks[Name]>[1]
}

/** Starts a task in a thread of its own, which is ended with the test. */
export function startTask<Name extends keyof Tasks>(t: Test, order: Order<Name>): Worker {
  const worker = new Worker(new URL('tasks.ts', import.meta.url), { workerData: order })
  t.teardown(() => worker.terminate())
  return worker
}

/** What a task has made, when it has ended. */
export async function resultOf<Name extends keyof Tasks>(worker: Worker): Promise<Awaited<ReturnType<Tasks[Name]>>> {
  const [[made]] = await Promise.all([once(worker, 'message'), once(worker, 'exit')])
  return made as Awaited<ReturnType<Tasks[Name]>>
}
