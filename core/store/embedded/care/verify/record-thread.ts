// The thread that compares request records while another one makes the other checks of `verify`: see `comparing`.
import { parentPort, workerData } from 'node:worker_threads'
import type { RecordOrder } from './comparing.ts'
import { compareRecords } from './record-comparison.ts'

const { file, state } = workerData as RecordOrder
try {
  parentPort!.postMessage(compareRecords(file, (records) => void Atomics.store(state, 0, BigInt(records))))
} catch (error) {
  // The other thread looks at this as it goes, and has no time for events.
  Atomics.store(state, 1, 1n)
  throw error
}
