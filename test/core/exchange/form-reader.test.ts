// Forms with files: what is found in them, what is kept of them, and what becomes of those that are none.
import { createHash, randomBytes } from 'node:crypto'
import { readdirSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { buffer } from 'node:stream/consumers'
import fc from 'fast-check'
import t from 'tap'
import { BodyEdit, RequestBody } from '../../../core/bodies/body.ts'
import { isPieces, lengthOf, uploadMemoryBytes } from '../../../core/bodies/upload.ts'
import type { UpstreamBody } from '../../../core/bodies/upload.ts'
import type { BodySink, BodySource } from '../../../core/clients/body-source.ts'
import type { Form } from '../../../core/bodies/form.ts'
import { readForm } from '../../../core/exchange/form-reader.ts'
import { Watchdog } from '../../../core/watchdog/watchdog.ts'
import { formOf } from '../../kit/form.ts'

const watchdog = new Watchdog()

/** Gives the chunks one by one, as long as they are wanted; each is overwritten after it was given, as a socket's buffer is. */
class Source implements BodySource {
  abandoned = false
  readonly #chunks: Buffer[]
  readonly #lost: boolean
  #sink: BodySink | undefined
  #paused = false
  #giving = false

  constructor(chunks: Buffer[], lost = false) {
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
        const shared = Buffer.from(chunk)
        sink.data(shared)
        shared.fill(0x21)
      } else {
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

async function read(body: Buffer, type: string, size = 65_536, bounds = {}): Promise<Form> {
  return readForm(new Source(cut(body, size)), type, undefined, { size: 2 ** 30, time: 60_000, watchdog, ...bounds })
}

async function bytesOf(body: UpstreamBody): Promise<Buffer> {
  const bytes = isPieces(body) ? Buffer.concat(body) : await buffer(body.open())
  t.equal(bytes.length, lengthOf(body), 'as many as announced')
  return bytes
}

const uploads = (): string[] => readdirSync(tmpdir()).filter((name) => name.startsWith('sluice-upload-'))

t.test('fields and files are found, and the bytes are kept, however they are cut', async (t) => {
  const file = randomBytes(300)
  const { body, type } = formOf([
    { name: 'prompt', value: 'Grüße\r\n--the-boundar' },
    { name: 'file', value: Buffer.concat([file, Buffer.from('\r\n--the-boundar')]), filename: 'a.wav', type: 'audio/wav' },
    { name: 'stream', value: 'true' },
    { name: 'model', value: 'öffentlich' },
    { name: 'n', value: '2' }
  ])
  for (let size = 1; size <= body.length; size += size < 80 ? 1 : 37) {
    const form = await read(body, type, size)
    const request = RequestBody.form(form)
    t.same([form.string('model'), form.flag('stream'), form.number('n'), form.string('prompt')], ['öffentlich', true, 2, 'Grüße\r\n--the-boundar'], `${size} bytes at a time`)
    t.match(form.files, [{ name: 'file', filename: 'a.wav', type: 'audio/wav', size: file.length + 15 }])
    t.ok((await bytesOf(new BodyEdit(request).render())).equals(body), 'untouched')
    const edit = new BodyEdit(request)
    edit.set('model', 'upstream"s')
    edit.set('n', 12)
    edit.set('language', 'de')
    const wanted = Buffer.concat([
      Buffer.from('--the-boundary\r\nContent-Disposition: form-data; name="language"\r\n\r\nde\r\n'),
      Buffer.from(body.toString('latin1').replace(Buffer.from('öffentlich').toString('latin1'), 'upstream"s').replace('\r\n2\r\n', '\r\n12\r\n'), 'latin1')
    ])
    t.ok((await bytesOf(edit.render())).equals(wanted), 'with three fields changed')
    form.upload.close()
  }
})

t.test('what is large is kept on disk without a name, and can be sent more than once', async (t) => {
  const file = randomBytes(uploadMemoryBytes * 5)
  const { body, type } = formOf([{ name: 'file', value: file, filename: 'a.bin' }, { name: 'model', value: 'm' }])
  const before = uploads().length
  const form = await read(body, type)
  const sent = new BodyEdit(RequestBody.form(form))
  sent.set('model', 'another')
  t.equal(uploads().length, before, 'nobody sees a file')
  const digest = (bytes: Buffer): string => createHash('sha256').update(bytes).digest('hex')
  const wanted = digest(Buffer.concat([body.subarray(0, body.lastIndexOf('m\r\n--')), Buffer.from('another'), body.subarray(body.lastIndexOf('m\r\n--') + 1)]))
  for (let time = 0; time < 3; time++) t.equal(digest(await bytesOf(sent.render())), wanted)
  const half = sent.render()
  if (!isPieces(half)) {
    const reader = half.open()
    reader.once('data', () => form.upload.close())
    await t.resolves(buffer(reader).catch(() => 'cut short'), 'closing while it is read hurts nobody')
  }
})

t.test('a body that is no form is refused with the reason, and leaves nothing behind', async (t) => {
  const { body, type } = formOf([{ name: 'model', value: 'm' }, { name: 'file', value: randomBytes(400_000), filename: 'f' }])
  const cases: [string, Buffer, string, string, RegExp, object?][] = [
    ['cut in the midst of a file', body.subarray(0, 300_000), type, 'invalid_request', /Unexpected end of form/],
    ['cut before the last delimiter', body.subarray(0, -12), type, 'invalid_request', /Unexpected end of form/],
    ['nothing at all', Buffer.alloc(0), type, 'invalid_request', /Unexpected end of form/],
    ['no delimiter', Buffer.from('model=m'), type, 'invalid_request', /Unexpected end of form/],
    ['a broken part head', Buffer.from('--the-boundary\r\nContent-Disposition form-data\r\n\r\nx\r\n--the-boundary--\r\n'), type, 'invalid_request', /Malformed part header/],
    ['no boundary', body, 'multipart/form-data', 'unsupported_media_type', /with a boundary/],
    ['larger than allowed', body, type, 'request_too_large', /larger than 1000 bytes/, { size: 1000 }],
    ['a field twice', formOf([{ name: 'model', value: 'a' }, { name: 'model', value: 'b' }]).body, type, 'invalid_field', /`model` stands in the form twice/],
    ['a field of 2 MiB', formOf([{ name: 'prompt', value: Buffer.alloc(2 ** 21, 'x') }]).body, type, 'invalid_request', /longer than 1 MiB/],
    ['a thousand fields', formOf(Array.from({ length: 1000 }, (_, index) => ({ name: `f${index}`, value: '' }))).body, type, 'invalid_request', /too many parts/]
  ]
  for (const [what, bytes, kind, code, message, bounds] of cases) await t.rejects(async () => read(bytes, kind, 65_536, bounds), { code, message }, what)
  await t.rejects(readForm(new Source(cut(body.subarray(0, 200_000), 65_536), true), type, undefined, { size: 2 ** 30, time: 60_000, watchdog }), { code: 'client_closed' })
  await t.rejects(async () => readForm(new Source([]), type, 1001, { size: 1000, time: 1, watchdog }), { code: 'request_too_large' }, 'by what it announces')
  t.same(uploads(), [])
})

t.test('any form reads back as its fields, and any damage is an error or a form', async () => {
  const part = fc.record({
    name: fc.stringMatching(/^[a-z]{1,8}$/), value: fc.oneof(fc.string(), fc.uint8Array({ maxLength: 200 }).map((bytes) => Buffer.from(bytes))), file: fc.boolean()
  })
  await fc.assert(
    fc.asyncProperty(fc.uniqueArray(part, { selector: ({ name }) => name, maxLength: 8 }), fc.integer({ min: 1, max: 300 }), fc.nat(), fc.boolean(), async (parts, size, at, damage) => {
      const { body, type } = formOf(parts.map(({ name, value, file }) => ({ name, value, ...(file && { filename: 'f' }) })), 'b0undary')
      if (damage) body[at % body.length]! ^= 1 << at % 8
      try {
        const form = await read(body, type, size)
        const whole = await bytesOf(new BodyEdit(RequestBody.form(form)).render())
        form.upload.close()
        if (!whole.equals(body)) return false
        return damage || parts.every(({ name, value, file }) => file || form.string(name) === Buffer.from(value).toString())
      } catch (error) {
        return damage && (error as { code?: string }).code !== undefined
      }
    }),
    { numRuns: 300 }
  )
})
