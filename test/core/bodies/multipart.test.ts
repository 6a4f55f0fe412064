// Forms in any pieces: what is found is what busboy finds, and what two readers could understand differently is
// refused.
import { randomBytes } from 'node:crypto'
import busboy from 'busboy'
import fc from 'fast-check'
import t from 'tap'
import { Multipart } from '../../../core/bodies/multipart.ts'
import { FormError } from '../../../core/bodies/part-head.ts'
import { formOf } from '../../kit/form.ts'

const runs = process.env['SLUICE_LONG'] === '1' ? 200_000 : 1000
const boundary = 'the-boundary'

/** A part as any reader sees it. */
interface Seen {
  name: string
  file: boolean
  type?: string
  bytes: string
}

/** What our reader finds, or why it refuses. */
function found(chunks: readonly Buffer[], mark = boundary): Seen[] | string {
  const whole = Buffer.concat(chunks)
  const heard = new Map<object, Buffer[]>()
  const reader = new Multipart(mark, (file, bytes) => heard.set(file, [...(heard.get(file) ?? []), Buffer.from(bytes)]))
  try {
    for (const chunk of chunks) reader.push(chunk)
    reader.end()
  } catch (error) {
    if (error instanceof FormError) return error.message
    throw error
  }
  return reader.parts.map((part) => {
    const bytes = whole.subarray(part.from, part.to)
    const file = part.filename !== undefined
    if (file && !Buffer.concat(heard.get(part) ?? []).equals(bytes))
      throw new Error('the content of a file was told otherwise')
    return {
      name: part.name,
      file,
      ...(file && { type: part.type }),
      bytes: file ? bytes.toString('latin1') : bytes.toString()
    }
  })
}

/** What busboy finds; undefined when it finds no form. */
function expected(body: Buffer): Promise<Seen[] | undefined> {
  return new Promise((resolve) => {
    const seen: Seen[] = []
    const parser = busboy({
      headers: { 'content-type': `multipart/form-data; boundary=${boundary}` },
      defParamCharset: 'utf8'
    })
    parser.on('field', (name, value) => seen.push({ name, file: false, bytes: value }))
    parser.on('file', (name, stream, { mimeType }) => {
      const file = { name, file: true, type: mimeType, bytes: '' }
      seen.push(file)
      stream.on('data', (bytes: Buffer) => (file.bytes += bytes.toString('latin1')))
      stream.on('error', () => {})
    })
    parser.on('error', () => resolve(undefined))
    parser.on('close', () => resolve(seen))
    parser.end(body)
  })
}

function cut(body: Buffer, ...places: number[]): Buffer[] {
  const ends = [0, ...places.toSorted((a, b) => a - b), body.length]
  return ends.slice(1).map((end, index) => body.subarray(ends[index], end))
}

t.test('wherever a form is cut, the same parts are found, which are those of busboy', async (t) => {
  const { body } = formOf([
    { name: 'prompt', value: 'Grüße\r\n--the-boundar\r\n--the-bound\r\r\n\r\n' },
    {
      name: 'file',
      value: Buffer.concat([randomBytes(40), Buffer.from('\r\n--the-boundar'), randomBytes(3)]),
      filename: 'a "b".wav'.replaceAll('"', '%22'),
      type: 'audio/wav; rate=8'
    },
    { name: 'empty', value: '' },
    { name: 'none', value: Buffer.alloc(0), filename: 'none' },
    { name: 'dashes', value: '--the-boundar', filename: 'd' },
    { name: 'modèle', value: '--' }
  ])
  const wanted = await expected(body)
  t.equal(wanted!.length, 6)
  t.same(found([body]), wanted)
  for (let at = 0; at <= body.length; at++) {
    const seen = found(cut(body, at))
    if (JSON.stringify(seen) !== JSON.stringify(wanted)) t.same(seen, wanted, `cut at ${at}`)
  }
  for (let size = 1; size < 40; size++)
    t.same(
      found(cut(body, ...Array.from({ length: Math.floor(body.length / size) }, (_, index) => index * size))),
      wanted,
      `${size} bytes at a time`
    )
})

t.test('of forms of chance and damaged ones, what is accepted is what busboy sees, however it is cut', async () => {
  const bits = [
    '\r\n',
    '\r',
    '\n',
    '--',
    `--${boundary}`,
    `\r\n--${boundary}`,
    `\r\n--${boundary}--`,
    `\r\n--${boundary}\r\n`,
    '\r\n\r\n',
    'x',
    '"',
    ';',
    '\\',
    ':',
    ' ',
    'ü',
    '\0',
    'the-boundary',
    'Content-Disposition: form-data; name="n"\r\n\r\n'
  ]
  const evil = fc.array(fc.constantFrom(...bits), { maxLength: 8 }).map((pieces) => pieces.join(''))
  const content = fc.oneof(
    evil,
    fc.constantFrom('', `\r\n--${boundary.slice(0, -1)}`, `--${boundary.slice(0, -1)}\r`, '\r\n\r'),
    fc.string(),
    fc.uint8Array({ maxLength: 60 }).map((bytes) => Buffer.from(bytes))
  )
  const name = fc.oneof({ weight: 20, arbitrary: fc.stringMatching(/^[a-zü]{1,6}$/) }, { weight: 1, arbitrary: evil })
  const part = fc.record({
    name,
    value: content,
    filename: fc.option(fc.oneof({ weight: 9, arbitrary: fc.constant('f.wav') }, { weight: 1, arbitrary: evil }), {
      nil: undefined
    }),
    type: fc.option(
      fc.constantFrom(
        'audio/wav',
        'Text/Plain; charset=UTF-8',
        'application/octet-stream',
        'text/plain; charset=utf-16',
        'junk'
      ),
      { nil: undefined }
    )
  })
  const damage = fc.option(fc.record({ at: fc.nat(), taken: fc.integer({ min: 0, max: 6 }), put: evil }), {
    nil: undefined,
    freq: 2
  })
  let accepted = 0
  await fc.assert(
    fc.asyncProperty(
      fc.array(part, { maxLength: 4 }),
      damage,
      fc.array(fc.nat(), { maxLength: 12 }),
      async (parts, harm, places) => {
        const { body: sound } = formOf(
          parts.map(({ filename, type, ...rest }) => ({
            ...rest,
            ...(filename !== undefined && { filename }),
            ...(type !== undefined && { type })
          })),
          boundary
        )
        const at = harm ? harm.at % sound.length : 0
        const body = harm
          ? Buffer.concat([sound.subarray(0, at), Buffer.from(harm.put), sound.subarray(at + harm.taken)])
          : sound
        const seen = found([body])
        const inPieces = found(cut(body, ...places.map((place) => place % (body.length + 1))))
        if (JSON.stringify(inPieces) !== JSON.stringify(seen))
          throw new Error(`in pieces: ${JSON.stringify(inPieces)}, whole: ${JSON.stringify(seen)}`)
        if (typeof seen === 'string') return
        accepted++
        // Of a malformed type busboy says that it is text, and we what can be read of it.
        const wanted = (await expected(body))?.map((part, index) => ({
          ...part,
          ...(part.type === 'text/plain' && { type: seen[index]?.type })
        }))
        if (JSON.stringify(wanted) !== JSON.stringify(seen))
          throw new Error(`busboy: ${JSON.stringify(wanted)}, ours: ${JSON.stringify(seen)}`)
      }
    ),
    { numRuns: runs }
  )
  t.ok(accepted > runs / 10, `${accepted} of ${runs} were accepted`)
})

t.test('heads that two readers read differently are refused with the reason', (t) => {
  const form = (head: string, content = 'x'): string =>
    `--${boundary}\r\n${head}\r\n\r\n${content}\r\n--${boundary}--\r\n`
  const refused: [string, RegExp][] = [
    ['Content-Disposition: form-data', /no name/],
    ['Content-Disposition: form-data; name=""', /no name/],
    ...[
      'mod\\el',
      ' model',
      'model ',
      'model\t',
      'mod%65l',
      '%22',
      '=?utf-8?q?model?=',
      '<model>',
      'a=b',
      '_charset_',
      '\xa0model',
      'm\xc2\x85'
    ].map((name): [string, RegExp] => [
      `Content-Disposition: form-data; name="${name}"`,
      /more than letters, digits and any/
    ]),
    [`Content-Disposition: form-data; name="${'a'.repeat(257)}"`, /name of a part is longer than 256 bytes/],
    ['Content-Disposition: form-data; name="a"; name="model"', /malformed/],
    ['Content-Disposition: form-data; name="a"; NAME="model"', /malformed/],
    ["Content-Disposition: form-data; name*=UTF-8''model", /malformed/],
    ['Content-Disposition: form-data; name*0="mod"; name*1="el"', /malformed/],
    ['Content-Disposition: form-data; name="a"\r\nContent-Disposition: form-data; name="model"', /a line twice/],
    ['Content-Disposition: form-data; name="a";\r\n name="model"', /malformed/],
    ['Content-Disposition: form-data; name="a" name="model"', /malformed/],
    ['Content-Disposition: form-data; name="a', /malformed/],
    ['Content-Disposition: attachment; name="a"', /no form-data/],
    ['Content-Disposition : form-data; name="a"', /malformed/],
    ['Content-Type: text/plain', /no form-data/],
    ['X', /malformed/],
    ['Content-Disposition: form-data; name="a"\nX: y', /malformed/],
    ['Content-Disposition: form-data; name="a"; filename=""', /file name .*`a` is empty/],
    ['Content-Disposition: form-data; name="a"; filename="b\\"; name=model; x="', /quotation marks and semicolons/],
    ['Content-Disposition: form-data; name="a"; filename*=UTF-8\'\'b', /`a` has no `filename`/],
    ['Content-Disposition: form-data; name="a"\r\nContent-Type: application/octet-stream', /`a` has no `filename`/],
    ['Content-Disposition: form-data; name="a"\r\nContent-Type: text/plain; charset=utf-16', /`a` is not in UTF-8/],
    ['Content-Disposition: form-data; name="a"\r\nContent-Transfer-Encoding: base64', /Content-Transfer-Encoding/],
    [`Content-Disposition: form-data; name="a"\r\n--${boundary}: x`, /boundary stands in the head/],
    [`--${boundary}--: x\r\nContent-Disposition: form-data; name="a"`, /boundary stands in the head/],
    [`Content-Disposition: form-data; name="a"\r\nX: ${'x'.repeat(17_000)}`, /longer than 16 KiB/],
    [`Content-Disposition: form-data; name="a"${'\r\nX: y'.repeat(40)}`, /more than 32 lines/],
    ['Content-Disposition: form-data; name="a"\r\nContent-Type: text/plain; charset=utf-8; name=f', /other parameters/],
    ['Content-Disposition: form-data; name="a"\r\nContent-Type: text/plain (; charset=utf-7', /parts of its own/],
    ['Content-Disposition: form-data; name="a"\r\nContent-Type: Multipart/Mixed; boundary=b', /parts of its own/],
    ['Content-Disposition: form-data; name="a"; filename="f"\r\nContent-Type: message/rfc822', /parts of its own/]
  ]
  for (const [head, reason] of refused) t.match(found([Buffer.from(form(head))]), reason, head.slice(0, 80))
  const taken: [string, object][] = [
    ['content-disposition: FORM-DATA;name=a', { name: 'a', file: false }],
    ['Content-Disposition: form-data; name="a"; filename="b\\"c.wav"', { name: 'a', file: true, type: 'text/plain' }],
    ['Content-Disposition: form-data; name="a"; filename="C:\\sounds\\b.wav"', { name: 'a', file: true }],
    [
      'Content-Disposition: form-data; name="a"; filename="fue.wav"; filename*=UTF-8\'\'f%C3%BCr.wav\r\nContent-Type: audio/wav',
      { name: 'a', file: true, type: 'audio/wav' }
    ],
    [
      'Content-Disposition: form-data; name="ü"; filename="fü;r.wav"\r\nContent-Transfer-Encoding: binary',
      { name: 'ü', file: true }
    ],
    [
      'Content-Disposition: form-data; name="a"\r\nContent-Type: text/plain; charset="UTF-8"\r\nContent-Length: 1',
      { name: 'a', file: false }
    ]
  ]
  for (const [head, part] of taken)
    t.match(found([Buffer.from(form(head))]), [{ ...part, bytes: 'x' }], head.slice(0, 80))
  t.end()
})

t.test('what stands around delimiters is refused, and so is what has no end', (t) => {
  const head = 'Content-Disposition: form-data; name="a"\r\n\r\n'
  const refused: [string, string, RegExp][] = [
    ['nothing', '', /before its last delimiter/],
    ['no delimiter', 'a=b', /begin with its delimiter/],
    ['a preamble', `hello\r\n--${boundary}\r\n${head}x\r\n--${boundary}--`, /begin with its delimiter/],
    ['an empty line before', `\r\n--${boundary}\r\n${head}x\r\n--${boundary}--`, /begin with its delimiter/],
    ['lines without CR', `--${boundary}\n${head}x\n--${boundary}--`, /behind a delimiter in its line/],
    ['padding behind a delimiter', `--${boundary} \r\n${head}x\r\n--${boundary}--`, /behind a delimiter in its line/],
    [
      'a longer delimiter',
      `--${boundary}\r\n${head}x\r\n--${boundary}x\r\n--${boundary}--`,
      /behind a delimiter in its line/
    ],
    ['one dash at the end', `--${boundary}\r\n${head}x\r\n--${boundary}-`, /before its last delimiter/],
    ['no end', `--${boundary}\r\n${head}x\r\n--${boundary}\r\n`, /before its last delimiter/],
    ['an end in a head', `--${boundary}\r\nContent-Dispo`, /before its last delimiter/],
    [
      'a delimiter in place of a content',
      `--${boundary}\r\n${head}--${boundary}--\r\n`,
      /boundary stands within a part/
    ],
    [
      'another form behind the end',
      `--${boundary}--\r\n--${boundary}\r\n${head}x\r\n--${boundary}--`,
      /behind its last delimiter/
    ]
  ]
  for (const [what, body, reason] of refused) {
    t.match(found([Buffer.from(body)]), reason, what)
    t.match(
      found(
        Buffer.from(body)
          .toString('latin1')
          .split('')
          .map((byte) => Buffer.from(byte, 'latin1'))
      ),
      reason,
      `${what}, byte by byte`
    )
  }
  for (const [what, body, parts] of [
    ['no parts', `--${boundary}--`, 0],
    ['empty lines behind', `--${boundary}\r\n${head}x\r\n--${boundary}--\r\n \r\n`, 1],
    ['a form in a form', `--${boundary}\r\n${head}--other\r\n${head}x\r\n--other--\r\n--${boundary}--`, 1]
  ] as const)
    t.equal(found([Buffer.from(body)]).length, parts, what)
  t.end()
})

t.test('content that is full of what delimiters begin or end with is read as quickly as any', (t) => {
  const size = 5_000_000
  const timeOf = (fill: string, mark: string): number => {
    const { body } = formOf([{ name: 'file', value: Buffer.alloc(size, fill), filename: 'f' }], mark)
    const chunks = cut(body, ...Array.from({ length: Math.floor(size / 65_536) }, (_, index) => index * 65_536))
    const reader = new Multipart(mark)
    const { user } = process.threadCpuUsage()
    for (const chunk of chunks) reader.push(chunk)
    reader.end()
    t.equal(reader.parts[0]!.to - reader.parts[0]!.from, size)
    return (process.threadCpuUsage().user - user) / 1000
  }
  for (const mark of [boundary, 'x', 'x---', '--------------------------------x', `${'-'.repeat(69)}x`]) {
    const ends = [mark.slice(-6), mark.slice(1), `-${mark}`, ` ${mark}`]
    const begins = [`\r\n--${mark.slice(0, -1)}`, `--${mark.slice(0, -1)}`]
    for (const fill of ['\r', '\n', '-', '\r\n', '\r\n--', ...begins, ...ends]) {
      if (fill === '') continue
      if (fill.includes(`--${mark}`) || fill.repeat(3).includes(`--${mark}`)) continue
      const ms = timeOf(fill, mark)
      t.ok(ms < 133, `${JSON.stringify(fill)}, ${mark}: ${ms} ms`)
    }
  }
  t.end()
})
