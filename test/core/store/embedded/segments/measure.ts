// Measures the journal in segments: node test/core/store/embedded/segments/measure.ts [requests] [folder]
// How many bytes a request takes as a frame and in a volume, and how long it takes to fold, seal and check them.
import { randomUUIDv7 } from 'node:crypto'
import { mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { formatDollars } from '../../../../../core/money/money.ts'
import { emptyBatch, recordValues } from '../../../../../core/store/embedded/rows/batch.ts'
import type { Batch } from '../../../../../core/store/embedded/rows/batch.ts'
import { FrameEncoder } from '../../../../../core/store/embedded/log/frame.ts'
import { Keeper } from '../../../../../core/store/embedded/segments/keeper.ts'
import { listNumbered, prepareFolder } from '../../../../../core/store/embedded/segments/folder.ts'
import { checkVolume } from '../../../../../core/store/embedded/segments/sealing.ts'
import { SegmentLog } from '../../../../../core/store/embedded/segments/segment-log.ts'
import { openJournal } from '../../../../../core/store/embedded/segments/state.ts'
import { Volume } from '../../../../../core/store/embedded/segments/volume.ts'
import { chatRecord } from '../chats.ts'

const requests = Number(process.argv[2] ?? 100_000)
const folder = join(mkdtempSync(join(process.argv[3] ?? tmpdir(), 'sluice-segments-')), 'journal')
const keys = 1000
const history = '0123456789abcdef'
const usage = { input: 1234, cached_input: 256, cache_write: 0, output: 345, reasoning: 128 }

function scopesOf(key: number): string {
  const tenant = `acme-${key % 10}`
  return JSON.stringify({
    [`tenant:${tenant}`]: 'month',
    [`project:${tenant}/web`]: 'month',
    [`member:${tenant}/web/m${key}`]: 'day',
    [`key:laptop-${key}`]: 'total'
  })
}
const scopes = Array.from({ length: keys }, (_, key) => scopesOf(key))

/** Adds a hold that begins. */
function begin(batch: Batch, id: string, rowId: number, key: number): void {
  const time = batch.written
  // prettier-ignore
  batch.opened.push(rowId, id, '', scopes[key]!, 40_000_000n, 'gpt-5', 'gpt-5:1', 1400, 4096, 1, 'openai', 0, 'chat', 'openai-chat', 1, time, null, null, null)
}

/** Adds the end of a hold, with its record. */
function end(batch: Batch, id: string, key: number, time: number): void {
  const counted = { ...usage, output: 300 + (key % 97) }
  // prettier-ignore
  batch.entries.push('settle', id, '', 'terminal', scopes[key]!, 4_000_000n + BigInt(key), 40_000_000n, JSON.stringify(counted), 'gpt-5', 'openai', 'gpt-5:1', 'upstream', time, null, null, null)
  const record = chatRecord(id, key, time, {
    usage: counted,
    cost_usd: formatDollars(BigInt(4_000_000 + key)),
    cost_nano: String(4_000_000 + key),
    reserved_nano: '40000000',
    attempts: [{ channel: 'openai', status: 200, first_byte_ms: 200 + (key % 31), duration_ms: 2000 + key }],
    first_byte_ms: 200 + (key % 31),
    duration_ms: 2001 + key
  })
  batch.records.push(...recordValues(record))
}

/** Follows what a log has written, and makes checkpoints when they are due. Counts its own CPU, in microseconds. */
class Following {
  readonly #keeper = new Keeper(folder, openJournal(folder, folder, 'process'), 'process')
  micros = 0
  checkpoints = 0

  follow(log: SegmentLog): void {
    const before = process.threadCpuUsage()
    this.#keeper.follow(log.taken())
    if (this.#keeper.checkpoint()) this.checkpoints++
    const { user, system } = process.threadCpuUsage(before)
    this.micros += user + system
  }
}

/** Writes all requests, `together` of them beginning in each batch, and ending in the one after. `held`: with rows. */
async function write(together: number, held: boolean, count: number): Promise<number> {
  prepareFolder(folder)
  const log = new SegmentLog(
    folder,
    { boot: 1, history, previous: '', after: 0, ordinal: 1 },
    { durability: 'process' }
  )
  const encoder = new FrameEncoder(history)
  const following = count === requests && together === 5 ? new Following() : undefined
  let open: { id: string; key: number; time: number }[] = []
  let [bytes, number, began] = [0, 0, 0]
  while (began < count || open.length > 0) {
    const batch = emptyBatch(++number, 1_795_000_000_000 + number * 5)
    if (number === 1) batch.prices.push('gpt-5:1', '{"input":"1250000000","output":"10000000000"}')
    const next: typeof open = []
    for (let i = 0; i < together && began < count; i++)
      next.push({ id: randomUUIDv7(), key: began++ % keys, time: batch.written })
    for (const { id, key, time } of held ? open : next) end(batch, id, key, time)
    if (held) for (const [i, { id, key }] of next.entries()) begin(batch, id, i + 1, key)
    open = held ? next : []
    const frame = encoder.encode(batch)
    bytes += frame.length
    await new Promise<void>((resolve, reject) =>
      log.append(frame, number, (error) => (error ? reject(error) : resolve()))
    )
    if (number % 50 === 0) following?.follow(log)
  }
  await log.close()
  if (following)
    console.log(
      `\n${count} requests of ${keys} keys, five begin in each frame: ${(bytes / count).toFixed(0)} bytes each; ` +
        `following them took ${(following.micros / count).toFixed(2)} µs each, with ${following.checkpoints} checkpoints of ` +
        `${Math.round(sizeOf('checkpoint') / 2 / 1024)} KiB`
    )
  return bytes
}

function sizeOf(kind: string): number {
  return readdirSync(folder)
    .filter((name) => name.startsWith(kind))
    .reduce((sum, name) => sum + statSync(join(folder, name)).size, 0)
}

/** Microseconds of CPU for each request that something takes, and seconds. */
function timed(what: string, count: number, work: () => void): void {
  const [cpu, began] = [process.cpuUsage(), performance.now()]
  work()
  const { user, system } = process.cpuUsage(cpu)
  const seconds = (performance.now() - began) / 1000
  console.log(`| ${what} | ${((user + system) / count).toFixed(2)} | ${seconds.toFixed(2)} |`)
}

console.log('| requests a frame | hold and end | bytes a request |\n|---|---|---|')
for (const [together, held] of [
  [1, false],
  [1, true],
  [10, false],
  [10, true]
] as const) {
  const count = Math.min(requests, 20_000)
  const bytes = await write(together, held, count)
  console.log(`| ${together} | ${held ? 'in two frames' : 'in one'} | ${Math.round(bytes / count)} |`)
  rmSync(folder, { recursive: true })
}

await write(5, true, requests)
console.log('\n| | µs of CPU a request | seconds |\n|---|---|---|')
timed('a start from the newest checkpoint', requests, () => void openJournal(folder, folder, 'process'))
for (const { kind, path } of listNumbered(folder)) if (kind === 'checkpoint') rmSync(path)
timed('a start without one, which folds all', requests, () => void openJournal(folder, folder, 'process'))
const keeper = new Keeper(folder, openJournal(folder, folder, 'process'), 'process')
timed('sealing all segments but the last', requests, () => {
  while (keeper.seal());
})
const volumes = listNumbered(folder).flatMap(({ kind, path }) => (kind === 'volume' ? [new Volume(path)] : []))
console.log(`| | ${(sizeOf('volume') / (5 * volumes.at(-1)!.contents.last)).toFixed(0)} bytes a request in volumes | |`)
timed('checking volumes', requests, () => {
  for (const volume of volumes) if (checkVolume(volume) !== undefined) throw new Error(checkVolume(volume))
})
rmSync(folder, { recursive: true })
