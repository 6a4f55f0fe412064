// How long recordings are, in every format, however they are cut; and that none of any shape costs much or is believed
// blindly.
import { randomBytes } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import t from 'tap'
import { Stopwatch } from '../../../core/bodies/sound/stopwatch.ts'
import { soundFormats } from '../../../core/simulator/media/formats.ts'
import { leastUsed } from '../../kit/turns.ts'

const folder = join(import.meta.dirname, '../../golden/sound')

function secondsOf(sound: Buffer, cut = sound.length): number | undefined {
  const stopwatch = new Stopwatch()
  for (let at = 0; at < sound.length; at += cut) stopwatch.push(sound.subarray(at, at + cut))
  return stopwatch.seconds
}

t.test('recordings of another program: what it says they last', (t) => {
  for (const name of readdirSync(folder)) {
    const sound = readFileSync(join(folder, name))
    const seconds = secondsOf(sound)!
    // Encoders add some frames at the beginning and at the end.
    const lasts = name === 'short.wav' ? 0.5 : 2.5
    t.ok(seconds >= lasts && seconds < lasts + 0.13, `${name}: ${seconds}`)
    for (const cut of [1, 13, 1000]) t.equal(secondsOf(sound, cut), seconds, `${name} in pieces of ${cut}`)
  }
  t.end()
})

t.test('sound that the simulator makes, from less than a second to an hour', (t) => {
  for (const [name, format] of Object.entries(soundFormats)) {
    if (name === 'pcm') continue
    for (const lasts of [0.3, 61.5, 3600]) {
      const stopwatch = new Stopwatch()
      for (const frame of format.frames(lasts)) stopwatch.push(Buffer.from(frame))
      const seconds = stopwatch.seconds!
      t.ok(seconds >= lasts && seconds < lasts + 0.2, `${name}: ${seconds} of ${lasts}`)
    }
  }
  t.end()
})

t.test('what is no sound has no length, and damage throws nothing', (t) => {
  t.equal(secondsOf(Buffer.alloc(0)), undefined)
  t.equal(secondsOf(Buffer.from('RIFF')), undefined)
  t.equal(secondsOf(Buffer.from('a text that is longer than any sign of a format')), undefined)
  t.equal(secondsOf(Buffer.from('%PDF-1.7 and so on, and so on')), undefined)
  const sounds = readdirSync(folder).map((name) => readFileSync(join(folder, name)))
  fc.assert(
    fc.property(
      fc.constantFrom(...sounds),
      fc.array(fc.tuple(fc.nat(), fc.nat(255)), { maxLength: 40 }),
      fc.nat(),
      fc.integer({ min: 1, max: 5000 }),
      (sound, changes, end, cut) => {
        const damaged = Buffer.from(sound.subarray(0, end % (sound.length + 1)))
        for (const [at, value] of changes)
          if (damaged.length > 0) damaged[at % Math.min(damaged.length, 1 + (at % 200))] = value
        const seconds = secondsOf(damaged, cut)
        return seconds === undefined || (Number.isFinite(seconds) && seconds > 0)
      }
    ),
    { numRuns: 3000 }
  )
  t.end()
})

t.test('what is made to keep us busy does not', (t) => {
  const size = 8 * 1024 * 1024
  const shapes: Record<string, Buffer> = {
    'sync words': Buffer.concat([Buffer.from([0xff, 0xfb, 0x90, 0x00]), Buffer.alloc(size, 0xff)]),
    'empty elements': Buffer.concat([Buffer.from('1a45dfa380', 'hex'), Buffer.from('ec80'.repeat(size / 2), 'hex')]),
    'empty boxes': Buffer.concat([
      Buffer.from('\0\0\0\x10ftypisom\0\0\0\0', 'latin1'),
      Buffer.from('0000000866726565'.repeat(size / 8), 'hex')
    ]),
    'nested boxes': Buffer.concat([
      Buffer.from('\0\0\0\x10ftypisom\0\0\0\0', 'latin1'),
      Buffer.from('000000107472616b'.repeat(size / 8), 'hex')
    ]),
    noise: Buffer.concat([Buffer.from('ID3\x04\0\0\0\0\0\0', 'latin1'), randomBytes(size)])
  }
  for (const [name, sound] of Object.entries(shapes)) {
    const ms = leastUsed(1500, () => secondsOf(sound, 64 * 1024))
    t.ok(ms < 1500, `${name}: ${Math.round(ms)} ms`)
  }
  t.end()
})
