// Starts the threads of the store.
import { Worker } from 'node:worker_threads'

/** Runs a module of this folder in a thread of its own; `data` is its `workerData`. */
export function startThread(module: 'writer-thread' | 'reader-thread', data: unknown): Worker {
  // Source and compiled files stand in the same places, with other endings.
  const file = new URL(`./${module}${import.meta.url.endsWith('.ts') ? '.ts' : '.js'}`, import.meta.url)
  return new Worker(file, { name: module, workerData: data })
}
