// Forms with files: what is found in them, what is kept of them, and what becomes of those that are none.
// Runs alone: it moves the folder of temporary files.
import { isUtf8 } from 'node:buffer'
import { createHash, randomBytes } from 'node:crypto'
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import fc from 'fast-check'
import t from 'tap'
import { BodyEdit, RequestBody } from '../../../../core/bodies/body.ts'
import { BodyMemory } from '../../../../core/bodies/body-memory.ts'
import { isPieces, lengthOf, uploadMemoryBytes } from '../../../../core/bodies/upload.ts'
import type { UpstreamBody } from '../../../../core/bodies/upload.ts'
import type { BodySink, BodySource } from '../../../../core/clients/body-source.ts'
import type { Form } from '../../../../core/bodies/form.ts'
import { readForm } from '../../../../core/exchange/requests/form-reader.ts'
import { Watchdog } from '../../../../core/watchdog/watchdog.ts'
import { formOf } from '../../../kit/form.ts'
import type { FormPart } from '../../../kit/form.ts'

// Others on the machine have uploads too.
process.env['TMPDIR'] = t.testdir()
const watchdog = new Watchdog()
const whose = { over: undefined }
const memory = new BodyMemory(128 * 1024 * 1024)

/**
 * Gives the chunks one by one, as long as they are wanted: where there is room for one, as a connection does, and else
 * in memory that is overwritten afterwards, as a socket's buffer is.
 */
class Source implements BodySource {
  abandoned = false
  readonly #chunks: Buffer[]
  readonly #lost: boolean | 'never'
  #sink: BodySink | undefined
  #paused = false
  #giving = false

  constructor(chunks: Buffer[], lost: boolean | 'never' = false) {
    this.#chunks = chunks
    this.#lost = lost
  }

  receive(sink: BodySink): void {
    this.#sink = sink
    this.#give()
  }

  pause(): void {
    this.#paused = true
  }

  resume(): void {
    this.#paused = false
    if (!this.#giving) setImmediate(() => this.#give())
  }

  /** More comes. */
  push(bytes: Buffer): void {
    this.#chunks.push(bytes)
    this.#give()
  }

  lose(): void {
    this.#sink?.lost()
  }

  abandon(): void {
    this.abandoned = true
    this.#sink = undefined
  }

  #give(): void {
    this.#giving = true
    while (this.#sink && !this.#paused) {
      const chunk = this.#chunks.shift()
      const sink = this.#sink
      if (chunk) {
        const { room } = sink
        if (room) {
          const taken = chunk.copy(room)
          if (taken < chunk.length) this.#chunks.unshift(chunk.subarray(taken))
          sink.data(room.subarray(0, taken))
          continue
        }
        const shared = Buffer.from(chunk)
        sink.data(shared)
        shared.fill(0x21)
      } else if (this.#lost === 'never') break
      else {
        this.#sink = undefined
        if (this.#lost) sink.lost()
        else sink.end()
      }
    }
    this.#giving = false
  }
}

function cut(body: Buffer, size: number): Buffer[] {
  const chunks: Buffer[] = []
  for (let at = 0; at < body.length; at += size) chunks.push(body.subarray(at, at + size))
  return chunks
}

async function read(body: Buffer, type: string, size = 65_536, bounds = {}, declared = false): Promise<Form> {
  return readForm(new Source(cut(body, size)), type, declared ? body.length : undefined, {
    size: 2 ** 30,
    time: 60_000,
    memory,
    watchdog,
    whose,
    ...bounds
  })
}

async function bytesOf(body: UpstreamBody): Promise<Buffer> {
  const bytes = isPieces(body) ? Buffer.concat(body) : await buffer(body.open())
  t.equal(bytes.length, lengthOf(body), 'as many as announced')
  return bytes
}

// A folder of this process alone: other processes of this machine read forms as well.
const temporary = mkdtempSync(join(tmpdir(), 'sluice-test-'))
process.env['TMPDIR'] = temporary
t.teardown(() => rmSync(temporary, { recursive: true, force: true }))
const uploads = (): string[] => readdirSync(temporary).filter((name) => name.startsWith('sluice-upload-'))

t.test('fields and files are found, and the bytes are kept, however they are cut', async (t) => {
  const file = randomBytes(300)
  const { body, type } = formOf([
    { name: 'prompt', value: 'Grüße\r\n--the-boundar' },
    {
      name: 'file',
      value: Buffer.concat([file, Buffer.from('\r\n--the-boundar')]),
      filename: 'a.wav',
      type: 'audio/wav'
    },
    { name: 'stream', value: 'true' },
    { name: 'model', value: 'öffentlich' },
    { name: 'n', value: '2' }
  ])
  for (let size = 1; size <= body.length; size += size < 80 ? 1 : 37) {
    const form = await read(body, type, size)
    const request = RequestBody.form(form)
    t.same(
      [form.string('model'), form.flag('stream'), form.number('n'), form.string('prompt')],
      ['öffentlich', true, 2, 'Grüße\r\n--the-boundar'],
      `${size} bytes at a time`
    )
    t.match(form.files, [{ name: 'file', filename: 'a.wav', type: 'audio/wav', size: file.length + 15 }])
    t.ok((await bytesOf(new BodyEdit(request).render())).equals(body), 'untouched')
    const edit = new BodyEdit(request)
    edit.set('model', 'upstream"s')
    edit.set('n', 12)
    edit.set('language', 'de')
    const wanted = Buffer.concat([
      Buffer.from('--the-boundary\r\nContent-Disposition: form-data; name="language"\r\n\r\nde\r\n'),
      Buffer.from(
        body
          .toString('latin1')
          .replace(Buffer.from('öffentlich').toString('latin1'), 'upstream"s')
          .replace('\r\n2\r\n', '\r\n12\r\n'),
        'latin1'
      )
    ])
    t.ok((await bytesOf(edit.render())).equals(wanted), 'with three fields changed')
    form.upload.close()
  }
})

const digest = (bytes: Buffer): string => createHash('sha256').update(bytes).digest('hex')

t.test(
  'an upload is in memory as far as others leave room for it, else on disk without a name, and can be sent more than once',
  async (t) => {
    const file = randomBytes(3_000_000)
    const { body, type } = formOf([
      { name: 'file', value: file, filename: 'a.bin' },
      { name: 'model', value: 'm' }
    ])
    const at = body.lastIndexOf('m\r\n--')
    const wanted = digest(Buffer.concat([body.subarray(0, at), Buffer.from('another'), body.subarray(at + 1)]))
    const before = uploads().length
    for (const MiB of [128, 4, 0.25, 0]) {
      for (const [declared, size] of [
        [true, 65_536],
        [true, 100_000],
        [false, 65_536],
        [false, 10_007]
      ] as const) {
        const own = new BodyMemory(MiB * 1024 * 1024)
        const form = await read(body, type, size, { memory: own }, declared)
        t.ok(own.used <= own.limit / 2 && own.used < body.length * 1.5, `${own.used} bytes of memory are taken`)
        const sent = new BodyEdit(RequestBody.form(form))
        sent.set('model', 'another')
        t.equal(isPieces(sent.render()), MiB === 128, `${MiB} MiB of memory, ${declared ? 'declared' : 'not declared'}`)
        t.equal(uploads().length, before, 'nobody sees a file')
        for (let time = 0; time < 2; time++) t.equal(digest(await bytesOf(sent.render())), wanted)
        const half = sent.render()
        if (!isPieces(half)) {
          const reader = half.open()
          reader.once('data', () => form.upload.close())
          await t.resolves(
            buffer(reader).catch(() => 'cut short'),
            'closing while it is read hurts nobody'
          )
        }
        form.upload.close()
        form.upload.close()
        t.equal(own.used, 0, 'all of it is given back, once')
      }
    }
  }
)

t.test('who sends the beginning of an upload and waits holds about as much memory', async (t) => {
  const { body, type } = formOf([{ name: 'file', value: Buffer.alloc(8_000_000), filename: 'a.bin' }])
  for (const sent of [1, 1000, 100_000, 1_000_000]) {
    const own = new BodyMemory(64 * 1024 * 1024)
    const source = new Source([], 'never')
    const reading = readForm(source, type, body.length, { size: 2 ** 30, time: 60_000, memory: own, watchdog, whose })
    source.push(body.subarray(0, sent))
    t.ok(own.used <= 2 * sent + 128 * 1024, `${own.used} bytes for ${sent}`)
    source.lose()
    await t.rejects(reading, { code: 'client_closed' })
    t.equal(own.used, 0)
  }
})

t.test(
  'of an upload that is too large for memory nothing lies there when that is known before, and else its beginning',
  async (t) => {
    const { body, type } = formOf([
      { name: 'file', value: Buffer.alloc(uploadMemoryBytes + 3_000_000, 'abc'), filename: 'a.bin' }
    ])
    for (const declared of [true, false]) {
      const form = await read(body, type, 1_000_000, {}, declared)
      t.ok(
        declared ? memory.used === 0 : memory.used <= uploadMemoryBytes && memory.used > uploadMemoryBytes - 2_000_000,
        `${memory.used}`
      )
      t.equal(digest(await bytesOf(form.render(undefined))), digest(body))
      form.upload.close()
      t.equal(memory.used, 0)
    }
  }
)

t.test('two forms have the same content when they differ in their boundary alone, wherever they lie', async (t) => {
  const contentOf = async (parts: FormPart[], boundary: string, own = memory): Promise<string> => {
    const { body, type } = formOf(parts, boundary)
    const form = await read(body, type, 1000, { memory: own }, true)
    const pieces: Buffer[] = []
    for await (const piece of form.content()) pieces.push(piece)
    form.upload.close()
    return digest(Buffer.concat(pieces))
  }
  const file = { name: 'file', value: Buffer.alloc(200_000, 'abc'), filename: 'a' }
  const model = { name: 'model', value: 'm' }
  const wanted = await contentOf([file, model], 'one')
  t.equal(await contentOf([file, model], 'another-boundary'), wanted)
  t.equal(await contentOf([file, model], 'third', new BodyMemory(0)), wanted)
  t.not(await contentOf([model, file], 'one'), wanted)
  const hidden = (mark: string): string => `x\r\n${mark}\r\nContent-Disposition: form-data; name="n"\r\n\r\n2`
  const two = await contentOf(
    [
      { name: 'prompt', value: 'x' },
      { name: 'n', value: '2' }
    ],
    'one'
  )
  for (const place of ['', ...Array(100).keys()])
    t.not(await contentOf([{ name: 'prompt', value: hidden(`\r\n--${place}\r\n`) }], 'one'), two)
})

t.test('a body that is no form is refused with the reason, and leaves nothing behind', async (t) => {
  const { body, type } = formOf([
    { name: 'model', value: 'm' },
    { name: 'file', value: randomBytes(400_000), filename: 'f' }
  ])
  const cases: [string, Buffer, string, string, RegExp, object?][] = [
    [
      'cut in the midst of a file',
      body.subarray(0, 300_000),
      type,
      'invalid_request',
      /ends before its last delimiter/
    ],
    ['cut before the last delimiter', body.subarray(0, -12), type, 'invalid_request', /ends before its last delimiter/],
    ['nothing at all', Buffer.alloc(0), type, 'invalid_request', /ends before its last delimiter/],
    ['no delimiter', Buffer.from('model=m'), type, 'invalid_request', /begin with its delimiter/],
    [
      'a broken part head',
      Buffer.from('--the-boundary\r\nContent-Disposition form-data\r\n\r\nx\r\n--the-boundary--\r\n'),
      type,
      'invalid_request',
      /head of a part is malformed/
    ],
    ['no boundary', body, 'multipart/form-data', 'unsupported_media_type', /with a boundary/],
    ['larger than allowed', body, type, 'request_too_large', /larger than 1000 bytes/, { size: 1000 }],
    [
      'a field twice',
      formOf([
        { name: 'model', value: 'a' },
        { name: 'model', value: 'b' }
      ]).body,
      type,
      'invalid_field',
      /`model` stands in the form twice/
    ],
    [
      'a field and a file of one name',
      formOf([
        { name: 'model', value: 'a' },
        { name: 'model', value: 'b', filename: 'f' }
      ]).body,
      type,
      'invalid_field',
      /as a field and as a file/
    ],
    [
      'fields of 3 MiB together',
      formOf(['a', 'b', 'c', 'd'].map((name) => ({ name, value: Buffer.alloc(800_000, 'x') }))).body,
      type,
      'invalid_request',
      /longer than 2 MiB together/
    ],
    [
      'a field of 2 MiB',
      formOf([{ name: 'prompt', value: Buffer.alloc(2 ** 21, 'x') }]).body,
      type,
      'invalid_request',
      /longer than 1 MiB/
    ],
    [
      'a thousand fields',
      formOf(Array.from({ length: 1000 }, (_, index) => ({ name: `f${index}`, value: '' }))).body,
      type,
      'invalid_request',
      /too many parts/
    ]
  ]
  for (const [what, bytes, kind, code, message, bounds] of cases) {
    for (const declared of [false, true])
      await t.rejects(async () => read(bytes, kind, 65_536, bounds, declared), { code, message }, what)
  }
  await t.rejects(
    readForm(new Source(cut(body.subarray(0, 200_000), 65_536), true), type, undefined, {
      size: 2 ** 30,
      time: 60_000,
      memory,
      watchdog,
      whose
    }),
    { code: 'client_closed' }
  )
  await t.rejects(
    async () => readForm(new Source([]), type, 1001, { size: 1000, time: 1, memory, watchdog, whose }),
    { code: 'request_too_large' },
    'by what it announces'
  )
  t.same(uploads(), [])
  t.equal(memory.used, 0)
})

t.test('any form reads back as its fields, and any damage is an error or a form', async () => {
  const part = fc.record({
    name: fc.stringMatching(/^[a-z]{1,8}$/),
    value: fc.oneof(
      fc.string(),
      fc.uint8Array({ maxLength: 200 }).map((bytes) => Buffer.from(bytes))
    ),
    file: fc.boolean()
  })
  await fc.assert(
    fc.asyncProperty(
      fc.uniqueArray(part, { selector: ({ name }) => name, maxLength: 8 }),
      fc.integer({ min: 1, max: 300 }),
      fc.nat(),
      fc.boolean(),
      fc.boolean(),
      async (parts, size, at, damage, declared) => {
        const { body, type } = formOf(
          parts.map(({ name, value, file }) => ({ name, value, ...(file && { filename: 'f' }) })),
          'b0undary'
        )
        if (damage) body[at % body.length]! ^= 1 << (at % 8)
        try {
          const form = await read(body, type, size, {}, declared)
          const whole = await bytesOf(new BodyEdit(RequestBody.form(form)).render())
          form.upload.close()
          if (!whole.equals(body)) return false
          return (
            damage ||
            parts.every(({ name, value, file }) => file || form.string(name) === Buffer.from(value).toString())
          )
        } catch (error) {
          // A field that is no UTF-8 is another text for every reader.
          const foreign = parts.some(({ value, file }) => !file && !isUtf8(Buffer.from(value)))
          return (damage || foreign) && ['invalid_request', 'invalid_field'].includes((error as { code: string }).code)
        }
      }
    ),
    { numRuns: 300 }
  )
})
