// How long is waited for the first byte of a whole answer, where nobody says it.
import t from 'tap'
import { wholePatience } from '../../core/exchange/answers/patience.ts'

const minutes = 60_000
const timeouts = { connect: 5000, firstByte: minutes, idle: minutes, total: 10 * minutes }

t.test('a model that says how long its answers may be is waited for as long as those may take', (t) => {
  t.equal(wholePatience(timeouts, 1000), minutes + 50_000)
  t.equal(wholePatience(timeouts, 4096), minutes + 204_800)
  t.equal(wholePatience(timeouts, 128_000), 10 * minutes, 'never longer than for all of it')
  t.end()
})

t.test('any other for half of the time that there is', (t) => {
  t.equal(wholePatience(timeouts, undefined), 5 * minutes)
  t.equal(wholePatience({ ...timeouts, total: 1000 }, undefined), 500)
  t.end()
})

t.test('what the file says counts before both', (t) => {
  t.equal(wholePatience({ ...timeouts, firstByteWhole: 30_000 }, 128_000), 30_000)
  t.equal(wholePatience({ ...timeouts, firstByteWhole: 30_000 }, undefined), 30_000)
  t.end()
})
