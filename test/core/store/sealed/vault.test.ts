// What the gateway keeps for clients takes no more room than it may, however many come at one time.
import { join } from 'node:path'
import t from 'tap'
import { openStore } from '../../../../core/store/embedded/store.ts'
import { SealedVault } from '../../../../core/store/sealed/vault.ts'

t.test('of many that are kept at one time no more stay than there is room for', async (t) => {
  const store = await openStore({ file: join(t.testdir(), 'sluice.db'), durability: 'process' })
  const most = 200_000
  const vault = new SealedVault(store.works, {
    key: 'secret',
    keep: 1_000_000,
    largest: 1_000_000,
    of_tenant: most,
    size: 10 * most
  })
  const label = (id: string): Parameters<SealedVault['put']>[0] => ({
    tenant: 'acme',
    project: '',
    id,
    model: 'demo',
    requestId: `of ${id}`
  })
  const ids = Array.from({ length: 20 }, (_, index) => `resp_${index}`)
  await Promise.all(ids.map((id) => vault.put(label(id), 'x'.repeat(50_000), { length: 1, tokens: 1, parts: {} })))
  t.ok(store.works.room.of('acme') <= most, `${store.works.room.of('acme')} bytes`)
  const found = (await Promise.all(ids.map((id) => vault.find({ tenant: 'acme', project: '' }, id)))).filter(
    (kept) => kept !== undefined
  )
  t.ok(found.length >= 2 && found.length <= 3, `${found.length} are kept`)
  for (const kept of found) t.equal(await vault.read(kept), 'x'.repeat(50_000))
  await store.close()
})
