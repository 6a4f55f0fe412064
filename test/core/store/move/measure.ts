// Measures a move of a large journal, there and back: `node test/core/store/move/measure.ts [rows]`. It needs
// PostgreSQL.
import { randomBytes, randomUUIDv7 } from 'node:crypto'
import { mkdtempSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { Committer } from '../../../../core/store/embedded/database/committer.ts'
import { migrate } from '../../../../core/store/embedded/database/migration.ts'
import { openDatabase } from '../../../../core/store/embedded/files/sqlite.ts'
import { emptyBatch } from '../../../../core/store/embedded/rows/batch.ts'
import { moveStore } from '../../../../core/store/move/move.ts'
import { windowsOf } from '../../../../core/store/window.ts'
import { sharedPostgres } from '../../../kit/postgres.ts'
import { noon } from '../embedded/sample.ts'

const rows = Number(process.argv[2] ?? 1_000_000)
const tenants = 200

/** A store with so many settlements of some hundred tenants in three months, as its gateway would have closed it. */
function made(file: string): void {
  const database = openDatabase(file, 'process', (opened) => migrate(opened, file))
  const committer = new Committer(database)
  committer.boot([], randomBytes(8).toString('hex'), noon)
  const sums = new Map<string, { scope: string; window: string; posted: bigint }>()
  for (let from = 0; from < rows; from += 5000) {
    const batch = emptyBatch(committer.last + 1, noon)
    if (from === 0) batch.prices.push('measure:1', '{"input":"1000000","output":"2000000"}')
    for (let i = from; i < Math.min(rows, from + 5000); i++) {
      const time = noon - Math.floor(((rows - i) / rows) * 90 * 86_400_000)
      const spans = { [`tenant:t${i % tenants}`]: 'month', [`key:k${i % 1000}`]: 'day' } as const
      const [input, output] = [100 + (i % 900), i % 500]
      const usage = JSON.stringify({ input, cached_input: 0, cache_write: 0, output, reasoning: 0 })
      const amount = BigInt(input + 2 * output)
      batch.entries.push('settle', randomUUIDv7(), '', 'terminal', JSON.stringify(spans), amount, amount, usage)
      batch.entries.push('gpt-5', 'openai', 'measure:1', 'upstream', time, null, null, null)
      for (const [scope, span] of Object.entries(spans))
        for (const window of windowsOf(span, time)) {
          const sum = sums.get(`${scope} ${window}`)
          if (sum) sum.posted += amount
          else sums.set(`${scope} ${window}`, { scope, window, posted: amount })
        }
    }
    committer.add(batch)
    committer.commit()
  }
  const last = emptyBatch(committer.last + 1, noon)
  last.balanced = true
  for (const { scope, window, posted } of sums.values()) last.moves.push(scope, window, posted, 0n)
  committer.add(last)
  committer.alter((head) => void (head.open = false))
  database.exec('PRAGMA journal_mode = DELETE')
  database.close()
}

async function measured(what: string, from: string, to: string): Promise<void> {
  const [began, cpu] = [performance.now(), process.cpuUsage()]
  let peak = 0
  const tell = (): void => void (peak = Math.max(peak, process.memoryUsage.rss()))
  const marks: string[] = []
  let words = ''
  await moveStore({
    from,
    to,
    tell: (text) => {
      tell()
      if (text !== words) marks.push(`${((performance.now() - began) / 1000).toFixed(0)} s ${(words = text)}`)
    }
  })
  const { user, system } = process.cpuUsage(cpu)
  const seconds = (performance.now() - began) / 1000
  console.log(
    `${what}: ${seconds.toFixed(1)} s, ${Math.round(rows / seconds)} rows a second, ${((user + system) / 1e6).toFixed(1)} s of CPU time, ${Math.round(peak / 2 ** 20)} MiB at most`
  )
  console.log(`  ${marks.join('; ')}`)
}

t.setTimeout(0)
const server = await sharedPostgres()
const folder = mkdtempSync(join(tmpdir(), 'sluice-move-'))
try {
  const [first, last] = [join(folder, 'first.db'), join(folder, 'last.db')]
  made(first)
  console.log(`${rows} rows, ${Math.round(statSync(first).size / 2 ** 20)} MiB`)
  const url = await server.database()
  await measured('to PostgreSQL', first, url)
  await measured('back', url, last)
} finally {
  await server.stop()
  rmSync(folder, { recursive: true })
}
