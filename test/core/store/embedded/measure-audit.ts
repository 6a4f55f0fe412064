// Measures pages of an audit log of 200,000 entries: `node test/core/store/embedded/measure-audit.ts [entries]`.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { emptyBatch } from '../../../../core/store/embedded/rows/batch.ts'
import { Committer } from '../../../../core/store/embedded/database/committer.ts'
import type { AuditQuery } from '../../../../core/store/documents.ts'
import { migrate } from '../../../../core/store/embedded/database/migration.ts'
import { openDatabase } from '../../../../core/store/embedded/files/sqlite.ts'
import { openStore } from '../../../../core/store/embedded/store.ts'

const [entries = 200_000] = process.argv.slice(2).map(Number)
const begin = Date.UTC(2026, 0, 1)
const folder = mkdtempSync(join(tmpdir(), 'sluice-audit-'))
const file = join(folder, 'sluice.db')
const database = openDatabase(file, 'process', (opened) => migrate(opened, file))
const committer = new Committer(database)
for (let number = 0, batchNumber = 1; number < entries; batchNumber++) {
  const batch = emptyBatch(batchNumber, begin)
  const last = Math.min(number + 1000, entries)
  for (; number < last; number++) {
    const change = { before: { limits: { rpm: number } }, after: { limits: { rpm: number + 1 } } }
    const who = { actor_kind: 'operator', actor: `operator-${number % 20}`, address: '127.0.0.1' }
    const what = {
      action: number % 3 ? 'key.change' : 'key.rotate',
      object_kind: 'key',
      object: `key-${number % 1000}`
    }
    const entry = { ...what, ...who, tenant: `t${number % 50}`, outcome: 'done', ...change }
    batch.audit.push(begin + number * 1000, JSON.stringify(entry))
  }
  committer.add(batch)
  committer.commit()
}
database.close()

const store = await openStore({ file, durability: 'process' })
const choices: Record<string, Omit<AuditQuery, 'limit'>> = {
  all: {},
  'an object': { members: { object: 'key-7' } },
  'a tenant and an action': { members: { tenant: 't7', action: 'key.rotate' } },
  'an actor that there is not': { members: { actor: 'nobody' } },
  'an outcome that there is not': { members: { outcome: 'refused' } },
  'an action, and a tenant that it never had': { members: { action: 'key.change', tenant: 'none' } },
  'an object of another tenant': { members: { object: 'key-7', tenant: 't8' } },
  'the first day': { until: begin + 86_400_000 },
  'before the first day': { until: begin - 1 }
}
await store.documents.audit({ limit: 1 })
process.stdout.write('| a page of a hundred | found | ms |\n|---|---|---|\n')
for (const [name, query] of Object.entries(choices)) {
  const began = performance.now()
  const { length } = await store.documents.audit({ ...query, limit: 100 })
  process.stdout.write(`| ${name} | ${length} | ${(performance.now() - began).toFixed(1)} |\n`)
}
await store.close()
rmSync(folder, { recursive: true })
