// A store that a command has for a moment between two processes is waited for, and no longer than for a while.
import { join } from 'node:path'
import t from 'tap'
import { whenFree } from '../../../core/handover/when-free.ts'
import { StoreInUse } from '../../../core/store/embedded/files/lock.ts'
import { openStore } from '../../../core/store/embedded/store.ts'
import type { OwnStore } from '../../../core/store/embedded/store.ts'

t.test('the next process gets the store when the command that has it is done', async (t) => {
  const file = join(t.testdir(), 'sluice.db')
  const command = await openStore({ file, durability: 'process' })
  let tries = 0
  const open = (): Promise<OwnStore> => {
    tries++
    // The command ends after it was in the way some times.
    if (tries === 3) void command.close()
    return openStore({ file, durability: 'process' })
  }
  const store = await whenFree(open, 300_000)
  t.ok(tries > 3, `${tries} tries`)
  await store.close()
})

t.test('a store that stays in use is named, and no other failure is waited for', async (t) => {
  const file = join(t.testdir(), 'sluice.db')
  const command = await openStore({ file, durability: 'process' })
  await t.rejects(
    whenFree(() => openStore({ file, durability: 'process' }), 200),
    StoreInUse
  )
  await command.close()
  let tries = 0
  await t.rejects(
    whenFree(() => {
      tries++
      return Promise.reject(new Error('the disk is full'))
    }, 300_000),
    /the disk is full/
  )
  t.equal(tries, 1)
})
