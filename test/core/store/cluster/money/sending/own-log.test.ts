// The log of a node: what it keeps over starts, when it lets go, and what it says of damage.
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { OwnLog } from '../../../../../../core/store/cluster/money/sending/own-log.ts'
import { framesAt } from '../../../../../../core/store/embedded/log/segment.ts'
import { logFolder } from '../../../../../kit/cluster-money.ts'

const one = { prices: ['a:1', '{}'], entries: [], touched: [] }
const two = { prices: ['b:1', '{}'], entries: [], touched: [['openai', null, 5, 'm', 'b:1', '["r",""]']].flat() }
const versions = (log: OwnLog): string[] => log.left.map(({ prices }) => prices[0]!)

t.test('what was written is there at the next starts, until it is cleared', async (t) => {
  const folder = logFolder(t)
  const first = new OwnLog(folder, 'process')
  t.same(first.left, [])
  await Promise.all([first.write(one), first.write(two)])
  t.ok(first.bytes > 0)
  await first.close()
  t.equal(readdirSync(folder).length, 2)
  const second = new OwnLog(folder, 'process')
  t.same(versions(second), ['a:1', 'b:1'])
  t.same(second.left[1]!.touched, two.touched)
  await second.close()
  const third = new OwnLog(folder, 'power')
  t.same(versions(third), ['a:1', 'b:1'], 'a start that did not send it leaves it')
  await third.write({ ...one, prices: ['c:1', '{}'] })
  await third.close()
  const fourth = new OwnLog(folder, 'process')
  t.same(versions(fourth), ['a:1', 'b:1', 'c:1'], 'in the order in which it was written')
  fourth.clear()
  await fourth.close()
  t.same(readdirSync(folder), [], 'nothing is left')
})

t.test('what the database has is gone from the log', async (t) => {
  const folder = logFolder(t)
  const log = new OwnLog(folder, 'process')
  t.same(readdirSync(folder), [], 'files are made when they are needed')
  for (const version of ['a:1', 'b:1', 'c:1']) {
    await log.write({ ...one, prices: [version, '{}'] })
    t.equal(log.used, true)
    log.clear()
    t.match(log, { bytes: 0, used: false })
  }
  await log.write(two)
  await log.close()
  const next = new OwnLog(folder, 'process')
  t.same(versions(next), ['b:1'])
  await next.close()
})

t.test('what the database refuses stays for the next start', async (t) => {
  const folder = logFolder(t)
  const log = new OwnLog(folder, 'process')
  await Promise.all([log.write(one), log.keep(two)])
  log.clear()
  await log.close()
  const next = new OwnLog(folder, 'process')
  t.same(versions(next), ['b:1'])
  next.clear()
  t.same(readdirSync(folder), [])
  await next.close()
})

t.test('a start after one that ended while it made or removed files', async (t) => {
  const folder = logFolder(t)
  const log = new OwnLog(folder, 'process')
  await log.write(one)
  await log.close()
  rmSync(
    join(
      folder,
      readdirSync(folder).find((name) => name.endsWith('.log1'))!
    )
  )
  writeFileSync(join(folder, '000000000000001-empty.log0'), '')
  const next = new OwnLog(folder, 'process')
  t.same(versions(next), ['a:1'])
  next.clear()
  t.same(readdirSync(folder), [])
  await next.close()
})

t.test('damage that hides charges stops the start, a torn end does not', async (t) => {
  const folder = logFolder(t)
  const log = new OwnLog(folder, 'process')
  await log.write(one)
  await log.write(two)
  await log.close()
  const path = join(
    folder,
    readdirSync(folder).find((name) => name.endsWith('.log0'))!
  )
  const whole = readFileSync(path)
  const damaged = Buffer.from(whole)
  damaged[framesAt + 40]! ^= 0xff
  writeFileSync(path, damaged)
  t.throws(() => new OwnLog(folder, 'process'), {
    message: /are damaged: they had 2 batches of charges, and 0 can be read/
  })
  writeFileSync(path, Buffer.concat([whole, Buffer.from([0x9e, 0x5c])]))
  const next = new OwnLog(folder, 'process')
  t.same(versions(next), ['a:1', 'b:1'])
  await next.close()
})
