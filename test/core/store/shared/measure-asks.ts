// Prints what it costs a worker to ask its supervisor: alone, and with others in the same turn of the loop.
// `node test/core/store/shared/measure-asks.ts`
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads'
import { joinStore } from '../../../../core/store/shared/desk/join.ts'
import { openWorkerStore } from '../../../../core/store/shared/worker-store.ts'
import type { Place } from '../../../../core/store/shared/worker-store.ts'

/** How many questions are asked, and how many at once. */
const [questions, together] = [8000, 32]

/** The CPU time of all threads, and the time, of one question in microseconds. */
interface Cost {
  readonly cpu: number
  readonly time: number
}

async function cost(atOnce: number, ask: () => unknown): Promise<Cost> {
  const run = async (count: number): Promise<void> => {
    for (let i = 0; i < count; i += atOnce) await Promise.all(Array.from({ length: atOnce }, ask))
  }
  await run(questions / 4)
  const [before, began] = [process.cpuUsage(), performance.now()]
  await run(questions)
  const { user, system } = process.cpuUsage(before)
  return { cpu: (user + system) / questions, time: ((performance.now() - began) * 1000) / questions }
}

async function work(place: Place): Promise<void> {
  const running = setInterval(() => {}, 1000)
  const { store, claims } = await joinStore(place)
  const look = (): unknown => claims.look('a name that nobody has claimed')
  parentPort!.postMessage({ one: await cost(1, look), many: await cost(together, look) })
  await store.close()
  clearInterval(running)
}

async function measure(): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-'))
  const workers = await openWorkerStore(
    { file: join(folder, 'store.db'), durability: 'process' },
    { seats: 2, sets: 64, cells: 64 }
  )
  const place = workers.give()
  const worker = new Worker(new URL(import.meta.url), { workerData: place, transferList: [place.port] })
  const [costs] = await Promise.all([
    new Promise<Record<'one' | 'many', Cost>>((resolve) => worker.on('message', resolve)),
    new Promise((resolve) => worker.on('exit', resolve))
  ])
  await workers.leave(place.seat)
  await workers.store.close()
  await rm(folder, { recursive: true })
  const row = (name: string, { cpu, time }: Cost): string => `| ${name} | ${cpu.toFixed(1)} | ${time.toFixed(1)} |`
  console.log('| A question to the supervisor | µs of CPU of both threads | µs |\n|---|---|---|')
  console.log(row('one after the other', costs.one))
  console.log(row(`${together} at once`, costs.many))
}

if (isMainThread) await measure()
else await work(workerData as Place)
