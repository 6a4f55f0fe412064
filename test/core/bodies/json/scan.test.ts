// The scanner agrees with JSON.parse on what is JSON, byte for byte, wherever a stretch ends; and it finds what is
// there.
import { isAscii, isUtf8 } from 'node:buffer'
import fc from 'fast-check'
import t from 'tap'
import { RequestBody } from '../../../../core/bodies/body.ts'
import {
  Following,
  LensError,
  maxDepth,
  maxKeyBytes,
  maxMembers,
  scan,
  scannable,
  Scanning
} from '../../../../core/bodies/json/scan.ts'
import { parseStrictly } from '../../../../core/bodies/parse.ts'
import { codePoint } from '../../../kit/code-point.ts'

/** Bytes that go to the module at once. */
const stretch = 64 * 1024
const runs = process.env['SLUICE_LONG'] ? 20_000 : 500

const piece = fc.oneof(
  fc.string({ unit: codePoint, maxLength: 20 }),
  fc.constantFrom(
    '"',
    '\\',
    '\\\\',
    '\n',
    '\t',
    '/',
    '\u0000',
    'n',
    't',
    'u0041',
    '"n',
    '\\"',
    'é',
    '€',
    '🙂',
    '\ud800'
  ),
  fc.nat({ max: 150 }).map((length) => 'x'.repeat(length))
)
const text = fc.array(piece, { maxLength: 8 }).map((pieces) => pieces.join(''))
const scalar = fc.oneof(text, fc.double(), fc.integer(), fc.boolean(), fc.constantFrom(null, -0, 1e300, 1e-7, 0.5))
const { value } = fc.letrec((tie) => ({
  value: fc.oneof(
    { maxDepth: 4 },
    scalar,
    fc.array(tie('value'), { maxLength: 4 }),
    fc.dictionary(text, tie('value'), { maxKeys: 4 })
  )
}))
const object = fc.dictionary(text, value, { maxKeys: 6 })

/** Writes JSON with white space and escapes as chance has it. */
function written(value: unknown, chance: () => number): string {
  const space = (): string => (chance() < 0.8 ? '' : [' ', '\n', '\t', '\r\n  '][Math.floor(chance() * 4)]!)
  const string = (text: string): string => {
    const escapes = chance() < 0.3
    let made = ''
    for (let i = 0; i < text.length; i++) {
      const unit = text[i]!
      const code = text.charCodeAt(i).toString(16).padStart(4, '0')
      if (escapes && chance() < 0.5) made += `\\u${chance() < 0.5 ? code : code.toUpperCase()}`
      else if (unit === '/' && chance() < 0.5) made += '\\/'
      else made += unit >= '\ud800' && unit <= '\udfff' ? unit : JSON.stringify(unit).slice(1, -1)
    }
    // Halves of a pair cannot be written but as escapes.
    return `"${made.isWellFormed() ? made : JSON.stringify(text).slice(1, -1)}"`
  }
  const any = (value: unknown): string => {
    if (typeof value === 'string') return string(value)
    if (Array.isArray(value)) return `[${space()}${value.map((item) => `${any(item)}${space()}`).join(`,${space()}`)}]`
    if (typeof value !== 'object' || value === null)
      return Object.is(value, -0) ? '-0.0E+2' : (JSON.stringify(value) ?? 'null')
    return `{${space()}${Object.entries(value)
      .map(([key, item]) => `${string(key)}${space()}:${space()}${any(item)}${space()}`)
      .join(`,${space()}`)}}`
  }
  return `${space()}${any(value)}${space()}`
}

const bytesOf = fc.tuple(object, fc.nat()).map(([value, seed]) => {
  let state = seed
  return Buffer.from(written(value, () => (state = (Math.imul(state, 1103515245) + 12345) >>> 0) / 2 ** 32))
})

/** White space before an object, so that a stretch ends `at` bytes into it. */
function cutAt(bytes: Buffer, at: number): Buffer {
  return Buffer.concat([Buffer.alloc(stretch - at, ' '), bytes])
}

/** The same bytes in the module's memory, between others that would go on with a string or end it. */
function inPlace(bytes: Buffer): Buffer {
  const { length } = bytes
  scannable.fill('\\', 0, 64)
  bytes.copy(scannable, 64)
  scannable.fill('"', 64 + length, 128 + length)
  return scannable.subarray(64, 64 + length)
}

/** All that the scanner says, as text. */
function said(bytes: Buffer): string {
  return saying(() => scan(bytes))!
}

/** What a scan or a part of one says; undefined when it has more to do. */
function saying(scans: () => ReturnType<typeof scan> | undefined): string | undefined {
  try {
    const found = scans()
    return found && JSON.stringify([[...found.members], found.start, found.isAscii, found.oddKeys])
  } catch (error) {
    return String(error)
  }
}

/** What is wrong with what the scanner says of bytes; undefined when it is what JSON.parse says. */
function disagreement(bytes: Buffer): string | undefined {
  let parsed: unknown
  let found: ReturnType<typeof scan> | undefined
  let message = ''
  try {
    // V8 reads some keys wrong that have escapes: see core/bodies/parse.ts.
    parsed = parseStrictly(bytes.toString())
  } catch {
    parsed = undefined
  }
  try {
    found = scan(bytes)
  } catch (error) {
    if (!(error instanceof LensError)) throw error
    message = error.message
  }
  if (said(inPlace(bytes)) !== said(bytes)) return 'something else where it lies'
  const isObject = typeof parsed === 'object' && parsed !== null && !Array.isArray(parsed)
  if (!found) return !isObject || /appears twice|key is longer/.test(message) ? undefined : `refused: ${message}`
  if (!isObject) return 'accepted'
  const fields = parsed as Record<string, unknown>
  if (bytes[found.start] !== 0x7b) return 'no brace at its start'
  if (found.isAscii !== isAscii(bytes)) return 'not ASCII, or ASCII'
  if (JSON.stringify([...found.members.keys()].sort()) !== JSON.stringify(Object.keys(fields).sort()))
    return 'other keys'
  for (const [key, { keyStart, valueStart, valueEnd, plain }] of found.members) {
    const written = bytes.toString('utf8', valueStart, valueEnd)
    if (written !== written.trim() || JSON.stringify(parseStrictly(written)) !== JSON.stringify(fields[key]))
      return `another value of ${key}`
    const [spelled] = /^"(?:[^"\\]|\\.)*"/.exec(bytes.toString('utf8', keyStart, valueStart)) ?? ['']
    if (JSON.parse(spelled) !== key) return `another place of ${key}`
    if (plain && bytes.toString('latin1', valueStart + 1, valueEnd - 1) !== fields[key])
      return `${key} does not spell itself`
  }
  return undefined
}

t.test('what JSON.parse reads is found, whatever the spacing and the escapes', async () => {
  fc.assert(
    fc.property(bytesOf, (bytes) => {
      const wrong = disagreement(bytes)
      if (wrong) throw new Error(wrong)
    }),
    { numRuns: runs }
  )
})

t.test('what JSON.parse refuses is refused, after any change of bytes', async () => {
  const byte = fc.oneof(fc.nat({ max: 255 }), fc.constantFrom(...Buffer.from('"\\{}[]:,u0e.-+tfn \n')))
  const change = fc.record({ at: fc.nat(), cut: fc.nat({ max: 2 }), put: fc.array(byte, { maxLength: 2 }) })
  let refused = 0
  fc.assert(
    fc.property(bytesOf, fc.array(change, { minLength: 1, maxLength: 3 }), (bytes, changes) => {
      let changed = bytes
      for (const { at, cut, put } of changes) {
        const place = at % (changed.length + 1)
        changed = Buffer.concat([changed.subarray(0, place), Buffer.from(put), changed.subarray(place + cut)])
      }
      const wrong = disagreement(changed)
      if (wrong) throw new Error(`${wrong}: ${changed.toString()}`)
      try {
        RequestBody.json(changed)
        if (!isUtf8(changed)) throw new Error('accepted what is not UTF-8')
      } catch (error) {
        refused++
        if ((error as Error).message.includes('UTF-8') === isUtf8(changed)) throw error
      }
    }),
    { numRuns: runs }
  )
  t.ok(refused > runs / 4, 'most changes break something')
})

t.test('it does not matter where a stretch ends', async () => {
  fc.assert(
    fc.property(bytesOf, fc.nat(), (bytes, seed) => {
      const at = seed % (bytes.length + 1)
      const wrong =
        disagreement(cutAt(bytes, at)) ??
        disagreement(cutAt(bytes.subarray(0, bytes.length - 1 - (seed % 3)), Math.min(at, bytes.length - 3)))
      if (wrong) throw new Error(`${wrong} when cut at ${at}`)
    }),
    { numRuns: runs / 10 }
  )
})

t.test('every byte of every token may be the last of its stretch', async (t) => {
  const texts = [
    '{"a":-0.5e+12,"b":1E5,"c":0,"d":10.25}',
    '{"a":true,"b":false,"c":null,"d":[{},[],""]}',
    '{"\\u006d\\n":"\\ud83d\\ude42\\\\\\"","é€":"🙂"}',
    `{"long":"${'x'.repeat(70)}\\n${'y'.repeat(70)}\\\\","k":[1,[2,{"a":[3]}]]}`,
    '{"a":01}',
    '{"a":1.}',
    '{"a":-x}',
    '{"a":1e+}',
    '{"a":trux}',
    '{"a":"\\u00g1"}',
    '{"a":"\\x"}',
    '{"a":"x\u0001"}',
    '{"a":1,}',
    '{"a":[1,]}',
    '{"a":1]'
  ]
  for (const text of texts) {
    const bytes = Buffer.from(text)
    for (let at = 0; at <= bytes.length; at++) {
      const wrong = disagreement(cutAt(bytes, at))
      if (wrong) t.fail(`${wrong}: ${text} cut at ${at}`)
    }
    const whole = messageOf(bytes)
    for (let at = 0; at <= bytes.length; at++) {
      const shifted = messageOf(cutAt(bytes, at))?.replace(/\d+/, (place) => String(Number(place) - stretch + at))
      if (shifted !== whole) t.fail(`${shifted}, not ${whole}, when cut at ${at}`)
    }
  }
})

function messageOf(bytes: Buffer): string | undefined {
  try {
    scan(bytes)
  } catch (error) {
    return (error as Error).message
  }
  return undefined
}

t.test('any byte may stand anywhere in a string, or may not', async (t) => {
  const long = Buffer.alloc(200, 'x')
  for (const at of [0, 1, 14, 15, 16, 31, 63, 64, 78, 79, 80, 81, 143, 144, 183, 184, 198, 199]) {
    for (let byte = 0; byte < 256; byte++) {
      for (const before of ['', '\\', '\\\\', '\\\\\\', '\\n\\', '"', '\\"']) {
        const bytes = Buffer.concat([
          Buffer.from('{"a":"'),
          long.subarray(0, at),
          Buffer.from(before),
          Buffer.of(byte),
          long.subarray(at),
          Buffer.from('"}')
        ])
        const wrong = disagreement(bytes)
        if (wrong) t.fail(`${wrong}: ${before} and ${byte} at ${at}`)
      }
    }
  }
})

t.test('tokens may be longer than several stretches', async (t) => {
  const long = 3 * stretch + 5
  for (const value of [
    `"${'x'.repeat(long)}"`,
    `"${'\\u00e9'.repeat(long / 6)}"`,
    `"${'\\\\'.repeat(long / 2)}"`,
    '1'.repeat(long),
    `[${'0,'.repeat(long / 2)}0]`,
    `0${' '.repeat(long)}`
  ]) {
    t.equal(disagreement(Buffer.from(`{"a":${value},"k":1}`)), undefined, value.slice(0, 8))
  }
})

t.test('keys and members are bounded, as every one of them is made something of', async (t) => {
  for (const [key, as] of [
    ['k', 'k'],
    ['\\u006b', 'k'],
    ['\\n', '\n'],
    ['é', 'é']
  ] as const) {
    const count = Math.floor(maxKeyBytes / Buffer.byteLength(key))
    const { members, oddKeys } = scan(Buffer.from(`{"${key.repeat(count - 1)}":1}`))
    t.strictSame([...members.keys()], [as.repeat(count - 1)])
    t.strictSame(oddKeys, as === 'k' ? [] : [as.repeat(count - 1)])
    t.throws(() => scan(Buffer.from(`{"a":1,"${key.repeat(count + 1)}":1}`)), {
      message: 'a key is longer than 1024 bytes (byte 7)'
    })
    t.throws(() => scan(Buffer.from(`{"a":1,"${key.repeat(stretch)}":1}`)), {
      message: 'a key is longer than 1024 bytes (byte 7)'
    })
  }
  const pairs = Array.from({ length: maxMembers + 1 }, (_, index) => `"k${index}":1`)
  t.equal(scan(Buffer.from(`{${pairs.slice(1).join(',')}}`)).members.size, maxMembers)
  t.throws(() => scan(Buffer.from(`{${pairs.join(',')}}`)), { message: /^more than 1000 members/ })
})

t.test('several scans may take turns, wherever each has stopped', async () => {
  const lead = fc.nat({ max: 2 * stretch })
  const texts = fc.array(fc.tuple(bytesOf, lead, fc.nat({ max: 3 })), { minLength: 2, maxLength: 4 })
  fc.assert(
    fc.property(texts, fc.array(fc.nat()), (texts, order) => {
      let place = 0
      const scans = texts.map(([bytes, lead, cut]) => {
        const whole = Buffer.concat([
          Buffer.alloc(lead, ' '),
          bytes.subarray(0, bytes.length - cut),
          Buffer.alloc(stretch, ' ')
        ])
        if (cut === 0) return { bytes: whole, scanning: new Scanning(whole), says: undefined as string | undefined }
        const there = scannable.subarray(place, (place += whole.length))
        whole.copy(there)
        return { bytes: there, scanning: new Scanning(there), says: undefined as string | undefined }
      })
      for (let step = 0; scans.some(({ says }) => says === undefined); step++) {
        const chosen = scans[(order[step % (order.length + 1)] ?? step) % scans.length]!
        const next = chosen.says === undefined ? chosen : scans.find(({ says }) => says === undefined)!
        next.says = saying(() => next.scanning.advance(0))
      }
      for (const { bytes, says } of scans)
        if (says !== said(bytes)) throw new Error(`${says} instead of ${said(bytes)}`)
    }),
    { numRuns: runs / 10 }
  )
})

t.test('a text that is followed in pieces ends where a scan of it says, also among others', async () => {
  const followed = (bytes: Buffer, cuts: readonly number[]): boolean => {
    const [one, other] = [new Following(), new Following()]
    try {
      let at = 0
      for (const cut of [...cuts.map((cut) => cut % (bytes.length + 1)).sort((a, b) => a - b), bytes.length]) {
        one.push(bytes.subarray(at, cut))
        other.push(Buffer.from(at === 0 ? '{"a":[[' : '[],{},'))
        at = cut
      }
      one.end()
      return true
    } catch (error) {
      if (error instanceof LensError) return false
      throw error
    }
  }
  fc.assert(
    fc.property(bytesOf, fc.nat({ max: 3 }), fc.array(fc.nat()), (bytes, missing, cuts) => {
      const text = bytes.subarray(0, Math.max(0, bytes.length - missing))
      const whole = (() => {
        try {
          // Whatever stands there twice.
          return (
            typeof JSON.parse(text.toString('latin1')) === 'object' &&
            text.toString('latin1').trimStart().startsWith('{')
          )
        } catch {
          return false
        }
      })()
      if (followed(text, cuts) !== whole)
        throw new Error(`followed: ${!whole}, parsed: ${whole}: ${text.toString('latin1')}`)
    }),
    { numRuns: runs }
  )
  const large = Buffer.from(
    JSON.stringify({
      data: Array(50_000).fill([0.125, 'a\\"']),
      ...Object.fromEntries(Array.from({ length: 3000 }, (_, key) => [`k${key}`, key]))
    })
  )
  if (!followed(large, [70_000, 200_001, 200_002]) || followed(large.subarray(0, -1), [100]))
    throw new Error('a large one')
})

t.test('any of the members is found to be given twice', async (t) => {
  for (const count of [0, 1, 511, 512, 513, 999, 1000]) {
    const pairs = Array.from({ length: count }, (_, index) => `"k${index}":${index}`)
    const { members } = scan(Buffer.from(`{${pairs.join(',')}}`))
    t.equal(members.size, count)
    t.strictSame(
      [...members.keys()],
      pairs.map((pair) => pair.slice(1, pair.indexOf(':') - 1))
    )
    for (const again of [0, 510, 511, 512, 998]) {
      if (again < count)
        t.throws(() => scan(Buffer.from(`{${pairs.join(',')},"k${again}":0}`)), {
          message: new RegExp(`"k${again}" appears twice`)
        })
    }
  }
})

t.test('names that differ are never taken for each other', async () => {
  const name = fc.string({ unit: fc.constantFrom('a', 'b', 'm', 'o', '_'), maxLength: 5 })
  fc.assert(
    fc.property(fc.uniqueArray(name, { maxLength: 40 }), (names) => {
      const { members } = scan(Buffer.from(JSON.stringify(Object.fromEntries(names.map((name) => [name, 0])))))
      return members.size === names.length && names.every((name) => members.has(name))
    }),
    { numRuns: 1000 }
  )
})

t.test('containers may lie as deep in each other as allowed, of whatever kind', async (t) => {
  for (const [open, close] of [
    ['[', ']'],
    ['{"a":', '}']
  ] as const) {
    const nested = (depth: number): Buffer =>
      Buffer.from(`{"a":${open.repeat(depth)}${open === '[' ? '' : '1'}${close.repeat(depth)},"b":[]}`)
    t.equal(disagreement(nested(maxDepth)), undefined)
    t.throws(() => scan(nested(maxDepth + 1)), { message: /nested deeper than 512/ })
  }
})

t.test('of a text that is followed in pieces its small members are known, wherever they stand', async () => {
  const member = fc.oneof(
    fc.jsonValue({ maxDepth: 3 }),
    fc.string(),
    fc.nat({ max: 40_000 }).map((length) => 'x'.repeat(length)),
    fc.nat({ max: 9000 }).map((length) => Array.from({ length }, (_, at) => at))
  )
  const key = fc.string({ maxLength: 12 }).filter((name) => name !== '__proto__')
  fc.assert(
    fc.property(
      fc.dictionary(key, member, { maxKeys: 12 }),
      fc.integer({ min: 1, max: 70_000 }),
      fc.nat({ max: 2 }),
      (body, size, indent) => {
        const bytes = Buffer.from(JSON.stringify(body, null, indent))
        const following = new Following()
        for (let at = 0; at < bytes.length; at += size) {
          const piece = Buffer.from(bytes.subarray(at, at + size))
          following.push(piece)
          // Its memory is used again.
          piece.fill('x')
        }
        following.end()
        const outline = JSON.parse(following.outline.toString()) as Record<string, unknown>
        for (const [name, value] of Object.entries(body)) {
          const known = JSON.stringify(outline[name]) === JSON.stringify(value)
          const { length } = JSON.stringify(value, null, indent)
          if (Object.hasOwn(outline, name) ? !known : length < 4000)
            throw new Error(`${name} of ${length} in pieces of ${size}`)
        }
      }
    ),
    { numRuns: runs / 20 }
  )
})
