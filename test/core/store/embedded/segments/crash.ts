// A process for the tests of kills and losses of power: `node crash.ts <folder> <steps>`. It opens a journal, says what
// it found, appends batches, keeps the journal, and says what was acknowledged.
import { writeSync } from 'node:fs'
import { Keeper } from '../../../../../core/store/embedded/segments/keeper.ts'
import { chance } from '../../../../kit/chance.ts'
import { batchOf, Writing } from './written.ts'

const [folder = '', steps = '0', seed = '1'] = process.argv.slice(2)
const dice = chance(Number(seed))
const say = (...words: unknown[]): void => void writeSync(1, `${words.join(' ')}\n`)

/** Does what the disk may refuse; an error leaves everything as it was. */
function attempt(work: () => void): void {
  try {
    work()
  } catch (error) {
    say('failed', (error as Error).message)
  }
}

const writing = new Writing(folder, { durability: 'power' })
const { place } = writing.opened.fold
say('found', place.batch, place.hash)
const keeper = new Keeper(folder, writing.opened, 'power')
let failures = 0
for (let step = 0; step < Number(steps) && failures < 200; step++) {
  const number = writing.last + 1
  try {
    await writing.append(batchOf(number, { text: dice.below(3000) }))
    say('acknowledged', number)
  } catch (error) {
    failures++
    say('failed', (error as Error).message)
    continue
  }
  attempt(() => keeper.follow(writing.log.taken()))
  if (dice.below(12) === 0) attempt(() => keeper.checkpoint(true))
  if (dice.below(3) > 0) attempt(() => keeper.seal())
  attempt(() => keeper.thin({ ordinal: Infinity, unrecorded: 1, answers: 0, now: 1 }))
  if (dice.below(5) === 0) for (const path of keeper.spent()) writing.log.give(path)
}
await writing.log.close()
say('closed', writing.last)
