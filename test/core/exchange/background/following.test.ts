// Who follows what another thread makes: a thread that is silent for a while, one that is gone, and what is kept.
import t from 'tap'
import { followThere, StreamRecording } from '../../../../core/exchange/background/recording.ts'
import { streamOf } from '../../../../core/operations/responses/own-background.ts'
import type { Told, Work, Works } from '../../../../core/store/works.ts'
import { work } from '../../store/embedded/sample.ts'

t.setTimeout(60_000)

const open = work('followed', { details: { streamed: true } })
const ended: Work = { ...open, status: 'succeeded' }

/** Works of which another thread tells this, one after another; then nothing. */
function works(
  state: Work | undefined,
  ...told: readonly (Told | undefined)[]
): Pick<Works, 'told' | 'find'> & { asked: [from: number, seat: number | undefined][] } {
  const asked: [number, number | undefined][] = []
  return {
    asked,
    find: async () => state,
    told: async (_work, from, seat) => told[asked.push([from, seat]) - 1]
  }
}

const pieces = (...texts: readonly string[]): Pick<Told, 'pieces' | 'over' | 'seat'> => ({
  pieces: texts.map((text) => Buffer.from(text)),
  over: false,
  seat: 3
})

async function textOf(stream: AsyncIterable<Uint8Array>): Promise<string> {
  const found: Uint8Array[] = []
  for await (const bytes of stream) found.push(bytes)
  return Buffer.concat(found).toString()
}

t.test('a thread that does not answer is asked again for as long as its work is open', async (t) => {
  const asked = works(open, pieces('one', 'two'), undefined, undefined, pieces(), { ...pieces('three'), over: true })
  t.equal(await textOf((await followThere(open, asked))!), 'onetwothree')
  t.same(asked.asked, [
    [0, undefined],
    [2, 3],
    [2, 3],
    [2, 3],
    [2, 3]
  ])
})

t.test('who follows learns where nothing comes, to leave there', async (t) => {
  const asked = works(open, pieces(), pieces())
  for await (const bytes of (await followThere(open, asked))!) {
    t.equal(bytes.length, 0)
    break
  }
  t.equal(asked.asked.length, 1)
})

t.test('who follows what this process makes learns it as well', async (t) => {
  // Nothing else keeps the process.
  const waiting = setInterval(() => {}, 1000)
  t.teardown(() => clearInterval(waiting))
  const recording = new StreamRecording()
  recording.push(Buffer.from('one'))
  const following = recording.follow()
  t.same((await following.next()).value, Buffer.from('one'))
  const silent = following.next()
  // Whoever has left meanwhile waits for it, to be forgotten.
  const left = following.return(undefined)
  t.same((await silent).value, Buffer.alloc(0))
  t.equal((await left).done, true)
  const other = recording.follow()
  t.same((await other.next()).value, Buffer.from('one'))
  recording.push(Buffer.from('two'))
  t.same((await other.next()).value, Buffer.from('two'))
  recording.close()
  t.equal((await other.next()).done, true)
})

t.test('a thread that tells nothing of work that has ended is asked no more', async (t) => {
  for (const state of [ended, undefined]) {
    const asked = works(state, pieces('one'))
    await t.rejects(textOf((await followThere(open, asked))!), { code: 'internal_error' })
    t.equal(asked.asked.length, 2)
  }
})

t.test('the rest of a response comes from what is kept when nobody tells it any more', async (t) => {
  const events = [1, 2, 3].map((at) => `data: {"sequence_number":${at},"text":"é"}\n\n`).join('')
  const told = Buffer.from(events).subarray(0, 50)
  const following = async (state: Work, query = ''): Promise<string> => {
    const asked = works(state, { ...pieces(), pieces: [told] })
    const context = {
      services: { works: asked, vault: { read: async () => ({ events }) } },
      background: { follow: (work: Work) => followThere(work, asked) }
    }
    const kept = { work: open, outline: {} }
    const { stream } = (await streamOf(kept as never, query, context as never)) as { stream: AsyncIterable<Buffer> }
    return textOf(stream)
  }
  t.equal(await following(ended), events)
  t.equal(await following(ended, 'starting_after=2'), events.slice(events.lastIndexOf('data')))
  await t.rejects(following({ ...open, status: 'failed' }), { code: 'internal_error' })
})
