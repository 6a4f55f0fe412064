// Ids of exchanges: whatever the time, they are UUIDs of version 7 that say it, and no two are the same.
import t from 'tap'
import { exchangeId } from '../../../core/wire/exchange-id.ts'

t.test('an id is a UUID of version 7 and begins with its time', (t) => {
  for (const time of [0, 1, 0xffff, 0x10000, Date.now(), 2 ** 48 - 1]) {
    const id = exchangeId(time)
    t.match(id, /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
    t.equal(parseInt(id.slice(0, 13).replace('-', ''), 16), time)
  }
  t.end()
})

t.test('ids of the same moment differ, in every digit that is random', (t) => {
  const ids = Array.from({ length: 10_000 }, () => exchangeId(1))
  t.equal(new Set(ids).size, ids.length)
  const seen = Array.from({ length: 36 }, (_, at) => new Set(ids.map((id) => id[at])).size)
  t.strictSame(
    seen,
    [...'11111111-1111-1xxx-4xxx-xxxxxxxxxxxx'].map((kind) => (kind === 'x' ? 16 : kind === '4' ? 4 : 1))
  )
  t.end()
})
