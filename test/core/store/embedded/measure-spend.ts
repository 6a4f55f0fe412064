// Measures queries of spend in a store of a million requests:
// `node test/core/store/embedded/measure-spend.ts [keys] [days]`.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { emptyBatch } from '../../../../core/store/embedded/rows/batch.ts'
import { Committer } from '../../../../core/store/embedded/database/committer.ts'
import { migrate } from '../../../../core/store/embedded/database/migration.ts'
import type { SpendGroup, SpendQuery } from '../../../../core/store/spend.ts'
import { querySpend } from '../../../../core/store/embedded/reader/spend-query.ts'
import { openDatabase, openForReading } from '../../../../core/store/embedded/files/sqlite.ts'

const [keys = 200, days = 30] = process.argv.slice(2).map(Number)
const requests = 1_000_000
const models = 5
const channels = 3
const start = Date.UTC(2026, 5, 1)
const dayMs = 86_400_000

const folder = mkdtempSync(join(tmpdir(), 'sluice-spend-'))
const file = join(folder, 'sluice.db')
const database = openDatabase(file, 'process', (opened) => migrate(opened, file))
const committer = new Committer(database)
for (let number = 0, batchNumber = 1; number < requests; batchNumber++) {
  const batch = emptyBatch(batchNumber, start)
  const last = number + 500
  for (; number < last; number++) {
    // Every key uses every model at every channel.
    const key = number % keys
    const model = Math.floor(number / keys) % models
    const channel = Math.floor(number / keys / models) % channels
    batch.entries.push(
      'settle',
      `r${number}`,
      '',
      'terminal',
      `{"tenant:t${key % 10}":"month","project:t${key % 10}/p":"total","key:k${key}":"total"}`,
      BigInt(number % 9999),
      9999n,
      `{"input":${number % 999},"cached_input":0,"cache_write":0,"output":${number % 777},"reasoning":0}`,
      `model-${model}`,
      `channel-${channel}`,
      'p:1',
      'upstream',
      start + Math.floor((number / requests) * days) * dayMs,
      `{"team":"team-${key % 7}"}`,
      BigInt(number % 999),
      'p:2'
    )
  }
  committer.add(batch)
  if (batchNumber % 40 === 0) committer.commit()
}
committer.commit()
database.close()

const reader = openForReading(file)
const { rows } = reader.prepare('SELECT count(*) AS rows FROM spend_day').get()!
process.stdout.write(
  `${keys} keys, ${days} days: ${rows} rows of days\n\n| by | all | one key | the last week |\n|---|---|---|---|\n`
)
const groups: SpendGroup[][] = [
  [],
  ['tenant'],
  ['tenant', 'project', 'key'],
  ['tag:team', 'model'],
  ['month', 'channel'],
  ['day'],
  ['key', 'day'],
  ['tenant', 'project', 'member', 'key', 'model', 'channel', 'tag', 'day'],
  ['model', 'channel', 'tag', 'day', 'tenant', 'project', 'member', 'key']
]
const choices: Partial<SpendQuery>[] = [{}, { equal: { key: 'k3' } }, { since: start / dayMs + days - 7 }]
for (const by of groups) {
  const times = choices.map((choice) => {
    const began = performance.now()
    querySpend(reader, { by, equal: {}, limit: 1000, ...choice })
    return `${Math.round(performance.now() - began)} ms`
  })
  process.stdout.write(`| ${by.join(', ') || 'nothing'} | ${times.join(' | ')} |\n`)
}
reader.close()
rmSync(folder, { recursive: true })
