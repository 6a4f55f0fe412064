// Forms of every evil shape, at every endpoint that takes one: an answer or a reason, and no file, no memory and no
// hold left behind.
import { createHash, randomBytes } from 'node:crypto'
import { readdirSync, readlinkSync } from 'node:fs'
import { gzipSync } from 'node:zlib'
import t from 'tap'
import type { Test } from 'tap'
import { startSimulator } from '../../core/simulator/simulator.ts'
import type { Simulator } from '../../core/simulator/simulator.ts'
import { connect } from '../kit/client.ts'
import { formOf } from '../kit/form.ts'
import type { FormPart } from '../kit/form.ts'
import { gateway, testKey } from '../kit/gateway.ts'
import type { LocalGateway } from '../kit/gateway.ts'
import { eventually, figures, settled } from '../kit/probe.ts'

t.setTimeout(600_000)

const authorization = `Bearer ${testKey}`
/** More than may be in memory here. */
const large = randomBytes(700_000)

/** Endpoints, with what each of them needs beside the model, and the name of its file. */
const endpoints: Record<string, { fields: FormPart[]; file: string }> = {
  '/v1/images/edits': {
    fields: [
      { name: 'prompt', value: 'Sail' },
      { name: 'size', value: '64x64' }
    ],
    file: 'image'
  },
  '/v1/images/variations': { fields: [{ name: 'size', value: '256x256' }], file: 'image' },
  '/v1/audio/transcriptions': { fields: [], file: 'file' },
  '/v1/audio/translations': { fields: [{ name: 'response_format', value: 'json' }], file: 'file' },
  '/v1/videos': {
    fields: [
      { name: 'prompt', value: 'A boat [[simulator {"queue_ms": 0, "work_ms": 0}]]' },
      { name: 'seconds', value: '4' }
    ],
    file: 'input_reference'
  }
}
const model: FormPart = { name: 'model', value: 'demo' }

async function open(t: Test): Promise<LocalGateway & { simulator: Simulator }> {
  const simulator = await startSimulator()
  t.teardown(() => simulator.close())
  const running = await gateway(t, {
    channels: {
      demo: {
        protocol: 'openai',
        base_url: `${simulator.url.origin}/v1`,
        private: true,
        models: { demo: 'demo' },
        endpoints: ['images', 'audio', 'videos']
      }
    },
    models: { demo: { price: { input: 1, output: 1, second: 0.001, image: 0.01 } } },
    tasks: { poll: { first: '20ms', most: '50ms' } },
    limits: { body_memory: '1MiB', multipart_body: '4MiB' }
  })
  return { ...running, simulator }
}

/** Files of uploads that this process has open. */
function openUploads(): string[] {
  return readdirSync('/proc/self/fd').flatMap((fd) => {
    try {
      const path = readlinkSync(`/proc/self/fd/${fd}`)
      return path.includes('sluice-upload-') ? [path] : []
    } catch {
      return []
    }
  })
}

async function nothingLeft(t: Test, running: LocalGateway): Promise<void> {
  await eventually(async () => (await figures(t, running)).get('sluice_exchanges_running') === 0, 10_000)
  if (process.platform === 'linux') await eventually(() => openUploads().length === 0)
  // Whatever was taken for uploads has come back: one that needs half of all there is finds it.
  const { body, type } = formOf([model, { name: 'file', value: Buffer.alloc(400_000), filename: 'f.wav' }])
  const before = openUploads().length
  const reply = await running.ask({
    method: 'POST',
    path: '/v1/audio/transcriptions',
    headers: { 'content-type': type },
    body
  })
  t.equal(reply.status, 200, reply.text)
  await eventually(() => openUploads().length <= before)
}

for (const [path, { fields, file }] of Object.entries(endpoints)) {
  t.test(`${path} takes odd forms as they are, and refuses what two could read differently`, async (t) => {
    const running = await open(t)
    const { simulator } = running
    const send = (body: Buffer, type: string, headers: Record<string, string> = {}): ReturnType<LocalGateway['ask']> =>
      running.ask({ method: 'POST', path, headers: { 'content-type': type, ...headers }, body })
    const upload = (value: Buffer, more: Partial<FormPart> = {}): FormPart => ({
      name: file,
      value,
      filename: 'f.wav',
      type: 'audio/wav',
      ...more
    })
    const simple = formOf([...fields, upload(large), model])
    const raw = (head: string, content = 'x'): Buffer =>
      Buffer.concat([
        formOf([...fields, model]).body.subarray(0, -'--the-boundary--\r\n'.length),
        Buffer.from(`--the-boundary\r\n${head}\r\n\r\n${content}\r\n--the-boundary--\r\n`)
      ])
    const mark = 'multipart/form-data; boundary=the-boundary'
    const nested = formOf([{ name: 'model', value: 'other' }], 'inner').body

    const taken: [string, Buffer, string][] = [
      ['the model last', simple.body, simple.type],
      ['the model first', formOf([model, ...fields, upload(large)]).body, mark],
      ['a boundary in quotes', simple.body, 'Multipart/Form-Data; charset=utf-8; boundary="the-boundary"'],
      [
        'the boundary within the file',
        formOf([...fields, upload(Buffer.from('\r\n--the-boundar\r\n--the-boundary'.slice(0, -1))), model]).body,
        mark
      ],
      ['a form within the file', formOf([...fields, upload(nested), model]).body, mark],
      ...(path.includes('audio')
        ? []
        : [
            ['an empty file', formOf([...fields, upload(Buffer.alloc(0)), model]).body, mark] as [
              string,
              Buffer,
              string
            ]
          ]),
      [
        'a name of a file with quotation marks and other letters',
        formOf([...fields, upload(large, { filename: 'Grüße \\"an\\" 日本.wav' }), model]).body,
        mark
      ],
      [
        'a name of a file that is a path',
        formOf([...fields, upload(large, { filename: '../../etc/passwd' }), model]).body,
        mark
      ],
      [
        'a name of a file said twice',
        Buffer.from(
          simple.body
            .toString('latin1')
            .replace('filename="f.wav"', 'filename="f.wav"; filename*=UTF-8\'\'f%C3%BC.wav'),
          'latin1'
        ),
        mark
      ]
    ]
    for (const [what, body, type] of taken) {
      const before = simulator.stats.uploads.length
      const reply = await send(body, type)
      t.equal(reply.status, 200, `${what}: ${reply.text.slice(0, 200)}`)
      const seen = simulator.stats.uploads.at(-1)
      t.ok(simulator.stats.uploads.length > before && seen?.field === file, what)
      const at = body.indexOf(`name="${file}"`)
      const from = body.indexOf('\r\n\r\n', at) + 4
      const sent = body.subarray(from, from + seen!.bytes)
      t.equal(seen!.sha256, createHash('sha256').update(sent).digest('hex'), `${what}: the same bytes`)
      t.ok(
        body
          .subarray(from + seen!.bytes)
          .toString('latin1')
          .startsWith('\r\n--the-boundary'),
        what
      )
    }

    const asked = simulator.stats.uploads.length
    const refused: [string, Buffer, string, number, string, Record<string, string>?][] = [
      ['no end', simple.body.subarray(0, -20), mark, 400, 'invalid_request'],
      ['half of a file', simple.body.subarray(0, 300_000), mark, 400, 'invalid_request'],
      [
        '10,000 small fields',
        formOf([model, ...Array.from({ length: 10_000 }, (_, index) => ({ name: `f${index}`, value: 'x' }))]).body,
        mark,
        400,
        'invalid_request'
      ],
      [
        'a thousand files',
        formOf([model, ...Array.from({ length: 1000 }, () => upload(Buffer.from('x')))]).body,
        mark,
        400,
        'invalid_request'
      ],
      [
        'a head of 100 KB',
        raw(`Content-Disposition: form-data; name="x"\r\nX-Long: ${'x'.repeat(100_000)}`),
        mark,
        400,
        'invalid_request'
      ],
      [
        'a name of 2000 bytes',
        formOf([model, ...fields, upload(large), { name: 'x'.repeat(2000), value: 'x' }]).body,
        mark,
        400,
        'invalid_request'
      ],
      ['the model twice', formOf([model, ...fields, upload(large), model]).body, mark, 400, 'invalid_field'],
      [
        'the model as a field and as a file',
        formOf([model, ...fields, upload(large), upload(Buffer.from('other'), { name: 'model' })]).body,
        mark,
        400,
        'invalid_field'
      ],
      [
        'the model as a file alone',
        formOf([...fields, upload(large), upload(Buffer.from('demo'), { name: 'model' })]).body,
        mark,
        400,
        'missing_field'
      ],
      ['no model', formOf([...fields, upload(large)]).body, mark, 400, 'missing_field'],
      [
        'an empty model',
        formOf([...fields, upload(large), { name: 'model', value: '' }]).body,
        mark,
        400,
        'invalid_field'
      ],
      [
        'a model in capitals',
        formOf([...fields, upload(large), { name: 'Model', value: 'demo' }]).body,
        mark,
        400,
        'invalid_field'
      ],
      [
        'an unknown model',
        formOf([...fields, upload(large), { name: 'model', value: 'none' }]).body,
        mark,
        404,
        'model_not_found'
      ],
      [
        'a file without a name',
        raw(`Content-Disposition: form-data; name="${file}"\r\nContent-Type: application/octet-stream`),
        mark,
        400,
        'invalid_request'
      ],
      [
        'a file whose name is empty',
        raw(`Content-Disposition: form-data; name="${file}"; filename=""`),
        mark,
        400,
        'invalid_request'
      ],
      [
        'two names of a part',
        raw('Content-Disposition: form-data; name="x"; name="model"'),
        mark,
        400,
        'invalid_request'
      ],
      [
        'a name behind a quotation mark',
        raw('Content-Disposition: form-data; name="x"; filename="\\"; name=model; y="'),
        mark,
        400,
        'invalid_request'
      ],
      [
        'lines without CR',
        Buffer.from(simple.body.toString('latin1').replaceAll('\r\n', '\n'), 'latin1'),
        mark,
        400,
        'invalid_request'
      ],
      [
        'lines without LF',
        Buffer.from(simple.body.toString('latin1').replaceAll('\r\n', '\r'), 'latin1'),
        mark,
        400,
        'invalid_request'
      ],
      ['a preamble', Buffer.concat([Buffer.from('This is a form.\r\n'), simple.body]), mark, 400, 'invalid_request'],
      [
        'another form behind the end',
        Buffer.concat([simple.body, formOf([{ name: 'model', value: 'x' }]).body]),
        mark,
        400,
        'invalid_request'
      ],
      [
        'base64',
        raw('Content-Disposition: form-data; name="x"\r\nContent-Transfer-Encoding: base64'),
        mark,
        400,
        'invalid_request'
      ],
      ['another boundary', simple.body, 'multipart/form-data; boundary=other', 400, 'invalid_request'],
      ['no boundary', simple.body, 'multipart/form-data', 415, 'unsupported_media_type'],
      [
        'a boundary of 71 characters',
        simple.body,
        `multipart/form-data; boundary=${'x'.repeat(71)}`,
        415,
        'unsupported_media_type'
      ],
      [
        'another kind of multipart',
        simple.body,
        'multipart/mixed; boundary=the-boundary',
        415,
        'unsupported_media_type'
      ],
      ['two boundaries', simple.body, `${mark}; boundary=other`, 415, 'unsupported_media_type'],
      [
        'a boundary in two words',
        simple.body,
        `multipart/form-data; boundary*0=the-; boundary*1=boundary`,
        415,
        'unsupported_media_type'
      ],
      [
        'a boundary within another parameter',
        simple.body,
        `multipart/form-data; x="; boundary=x; y="; boundary=the-boundary`,
        415,
        'unsupported_media_type'
      ],
      ['another charset', simple.body, `${mark}; charset=utf-7`, 415, 'unsupported_media_type'],
      [
        'a boundary behind a bare LF',
        formOf([
          ...fields,
          upload(Buffer.from(`x\n--the-boundary\nContent-Disposition: form-data; name="model"\n\nother`)),
          model
        ]).body,
        mark,
        400,
        'invalid_request'
      ],
      [
        'a name with blanks',
        formOf([...fields, upload(large), model, { name: 'model ', value: 'other' }]).body,
        mark,
        400,
        'invalid_request'
      ],
      [
        'a list of models',
        formOf([...fields, upload(large), model, { name: 'model[]', value: 'other' }]).body,
        mark,
        400,
        'invalid_field'
      ],
      [
        'a field in Latin1',
        formOf([...fields, upload(large), model, { name: 'user', value: Buffer.from('\xfc', 'latin1') }]).body,
        mark,
        400,
        'invalid_field'
      ],
      ['no type', simple.body, '', 415, 'unsupported_media_type'],
      ['gzip', gzipSync(simple.body), mark, 415, 'unsupported_media_type', { 'content-encoding': 'gzip' }],
      ['too large', formOf([upload(Buffer.alloc(5_000_000)), model]).body, mark, 413, 'request_too_large'],
      ['a file where there is no JSON', Buffer.from('not a form'), mark, 400, 'invalid_request'],
      ['nothing', Buffer.alloc(0), mark, 400, 'invalid_request']
    ]
    for (const [what, body, type, wanted, code, headers] of refused) {
      // How it is framed is no matter of the endpoint.
      for (const framing of path.endsWith('transcriptions') ? [{}, { 'transfer-encoding': 'chunked' }] : [{}]) {
        const client = await connect(t, running.url)
        const chunked = 'transfer-encoding' in framing
        const lines = {
          host: 'x',
          authorization,
          'content-type': type,
          connection: 'close',
          ...headers,
          ...(chunked ? framing : { 'content-length': String(body.length) })
        }
        client.write(
          `POST ${path} HTTP/1.1\r\n${Object.entries(lines)
            .map(([name, value]) => `${name}: ${value}\r\n`)
            .join('')}\r\n`
        )
        for (let at = 0; at < body.length; at += 50_000) {
          const piece = body.subarray(at, at + 50_000)
          if (chunked)
            client
              .write(`${piece.length.toString(16)}\r\n`)
              .write(piece)
              .write('\r\n')
          else client.write(piece)
        }
        if (chunked) client.write('0\r\n\r\n')
        const reply = await client.reply()
        t.equal(reply.status, wanted, `${what}${chunked ? ', chunked' : ''}: ${reply.text.slice(0, 200)}`)
        t.match(reply.json(), { error: { code, message: /\w{4}.*\.$/ } }, what)
        client.close()
      }
    }
    t.equal(simulator.stats.uploads.length, asked, 'none of them reached the upstream')
    await nothingLeft(t, running)
    await eventually(async () => (await figures(t, running)).get('sluice_tasks_open') === 0, 10_000)
    await settled(t, running)
  })

  t.test(`${path}: a client that leaves, waits or counts wrongly leaves nothing behind`, async (t) => {
    const running = await open(t)
    const { simulator } = running
    const { body, type } = formOf([
      ...fields,
      { name: file, value: large, filename: 'f.wav', type: 'audio/wav' },
      model
    ])
    const head = (length: number, more = ''): string =>
      `POST ${path} HTTP/1.1\r\nhost: x\r\nauthorization: ${authorization}\r\ncontent-type: ${type}\r\ncontent-length: ${length}\r\n${more}\r\n`
    const asked = simulator.stats.requests
    const file0 = body.indexOf('\r\n\r\n', body.indexOf('filename')) + 4
    const places = [
      0,
      1,
      15,
      16,
      30,
      body.indexOf('filename'),
      file0,
      file0 + 1,
      65_536,
      400_000,
      524_288,
      file0 + large.length,
      body.length - 60,
      body.length - 20,
      body.length - 3,
      body.length - 2
    ]
    await Promise.all(
      places.map(async (place, index) => {
        const client = await connect(t, running.url)
        client.write(head(body.length)).write(body.subarray(0, place))
        await new Promise<void>((resolve) =>
          client.socket.writableLength === 0 ? resolve() : client.socket.once('drain', resolve)
        )
        await new Promise((resolve) => setTimeout(resolve, 20))
        if (index % 2 === 0) client.close()
        else client.reset()
      })
    )
    await nothingLeft(t, running)
    t.ok(simulator.stats.requests - asked <= 1, 'the upstream heard of none')

    const waiting = await connect(t, running.url)
    waiting.write(head(body.length, 'expect: 100-continue\r\n'))
    await eventually(
      () => Buffer.concat(waiting.reads.map(({ bytes }) => bytes)).toString() === 'HTTP/1.1 100 Continue\r\n\r\n'
    )
    waiting.write(body)
    await eventually(() => waiting.replies.some((reply) => reply.status === 200), 10_000)
    const refused = await connect(t, running.url)
    refused.write(head(body.length, 'expect: 100-continue\r\n').replace(authorization, 'Bearer sk-wrong'))
    t.equal((await refused.reply()).status, 401, 'and not asked when it is refused')

    const long = await connect(t, running.url)
    long.write(head(body.length - 1)).write(body)
    const first = await long.reply(0)
    t.equal(first.status, 200, 'the form is at its end one byte before its last line end')
    const short = await connect(t, running.url)
    short.write(head(body.length - 30)).write(body)
    t.equal((await short.reply(0)).status, 400, 'a length that is too short is a form without its end')
    await nothingLeft(t, running)
    await eventually(async () => (await figures(t, running)).get('sluice_tasks_open') === 0, 10_000)
    await settled(t, running)
  })
}
