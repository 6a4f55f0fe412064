// What is like a text that was looked into is JSON, and says the same but for its strings.
import fc from 'fast-check'
import t from 'tap'
import { Likeness } from '../../core/protocols/text/likeness.ts'
import { codePoint } from '../kit/code-point.ts'

const event = JSON.stringify({
  id: 'chatcmpl-1',
  created: 1,
  choices: [{ index: 0, delta: { content: 'a "quoted" \\ word' }, logprobs: null, finish_reason: null }],
  obfuscation: 'xyz'
})
const like = new Likeness(Buffer.from(event))

/** A value with every string among its values replaced by the same one. */
function without(value: unknown): unknown {
  if (typeof value === 'string') return ''
  if (Array.isArray(value)) return value.map(without)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, without(inner)]))
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

t.test('any strings in the places of strings fit', async () => {
  const strings = fc.tuple(
    fc.string({ unit: codePoint }),
    fc.string({ unit: 'grapheme' }),
    fc.constantFrom('', '\\', '"', '\u0000', '{"error":1}', '\n', '😀')
  )
  fc.assert(
    fc.property(strings, ([id, content, obfuscation]) => {
      const other = {
        id,
        created: 1,
        choices: [{ index: 0, delta: { content }, logprobs: null, finish_reason: null }],
        obfuscation
      }
      return like.fits(Buffer.from(JSON.stringify(other)))
    }),
    { numRuns: 1000 }
  )
})

t.test('what fits is JSON with the same keys, numbers and structure, however it was damaged', async (t) => {
  const damage = fc.array(
    fc.tuple(
      fc.nat(event.length),
      fc.nat(3),
      fc.constantFrom(
        '',
        '"',
        '\\',
        '\\u00e9',
        '\\x',
        '\\u00g0',
        '{',
        '}',
        ',',
        ':',
        'null',
        '0',
        ' ',
        '\n',
        'error',
        '"error":{}',
        ',"error":""'
      )
    ),
    { minLength: 1, maxLength: 3 }
  )
  const seen = { fits: 0, not: 0 }
  const one = Buffer.from(event.replace('word', 'other word'))
  const two = Buffer.from(event.replace('word', 'other word').replace('xyz', 'x'))
  // What it takes for the next to be different in follows from the one before.
  fc.assert(
    fc.property(damage, fc.constantFrom(one, two), (changes, before) => {
      like.fits(before)
      let text = event
      for (const [at, gone, put] of changes) text = text.slice(0, at) + put + text.slice(at + gone)
      const fits = like.fits(Buffer.from(text))
      seen[fits ? 'fits' : 'not']++
      return !fits || JSON.stringify(without(parsed(text))) === JSON.stringify(without(JSON.parse(event)))
    }),
    { numRuns: 20_000 }
  )
  t.ok(seen.fits > 500 && seen.not > 500, JSON.stringify(seen))
})

t.test('a text of any shape is like itself, and like nothing that is longer or shorter', async () => {
  fc.assert(
    fc.property(fc.jsonValue(), fc.constantFrom(undefined, 1, '\t'), (value, space) => {
      const text = JSON.stringify(value, undefined, space)
      const itself = new Likeness(Buffer.from(text))
      return (
        itself.fits(Buffer.from(text)) &&
        !itself.fits(Buffer.from(`${text} `)) &&
        !itself.fits(Buffer.from(text.slice(0, -1)))
      )
    }),
    { numRuns: 1000 }
  )
})
