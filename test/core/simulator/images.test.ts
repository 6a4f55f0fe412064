// Pictures that the simulator makes: real ones, of the size that was asked for.
import { hash } from 'node:crypto'
import { inflateSync } from 'node:zlib'
import t from 'tap'
import { connect } from '../../kit/client.ts'
import { eventually } from '../../kit/probe.ts'
import { readEvents } from '../../kit/sse.ts'
import { start, tell } from './kit.ts'

const path = '/v1/images/generations'

/** Width and height, from where each format has them. */
function sizeOf(bytes: Buffer): [format: string, width: number, height: number] {
  if (bytes.toString('latin1', 1, 4) === 'PNG') return ['png', bytes.readUInt32BE(16), bytes.readUInt32BE(20)]
  if (bytes.toString('latin1', 12, 16) === 'VP8L') {
    const packed = bytes.readUInt32LE(21)
    return ['webp', (packed & 0x3fff) + 1, ((packed >> 14) & 0x3fff) + 1]
  }
  const frame = bytes.indexOf(Buffer.from([0xff, 0xc0]))
  return ['jpeg', bytes.readUInt16BE(frame + 7), bytes.readUInt16BE(frame + 5)]
}

t.test('a picture is what was asked for, as bytes and by address', async (t) => {
  const { json, send, stats } = await start(t)
  const body = { model: 'm', prompt: 'A boat', size: '640x480', n: 2 }
  const inline = await json(path, body)
  t.equal(inline.data.length, 2)
  const pictures = inline.data.map(({ b64_json: encoded }: any) => Buffer.from(encoded, 'base64'))
  t.same(pictures.map(sizeOf), [
    ['png', 640, 480],
    ['png', 640, 480]
  ])
  t.notSame(pictures[0], pictures[1])
  const data = pictures[0].subarray(pictures[0].indexOf('IDAT') + 4)
  t.equal(inflateSync(data).length, (1 + 80) * 480, 'with all its rows')
  t.match(inline, { output_format: 'png', size: '640x480', quality: 'auto', background: 'auto' })
  t.same(inline.usage, {
    input_tokens: 2,
    input_tokens_details: { text_tokens: 2, image_tokens: 0 },
    output_tokens: 2 * 20 * 15,
    output_tokens_details: { image_tokens: 600, text_tokens: 0 },
    total_tokens: 602
  })
  t.same(stats.counted, { prompt: 2, completion: 600, images: 2 })

  const linked = await json(path, { ...body, response_format: 'url' })
  for (const [i, { url }] of linked.data.entries()) {
    const file = await send(new URL(url).pathname)
    t.same([file.status, file.headers['content-type'], file.body.equals(pictures[i])], [200, 'image/png', true])
  }
  t.equal((await send('/files/nothing.png')).status, 404)
  for (const format of ['jpeg', 'webp']) {
    const [{ b64_json: encoded }] = (await json(path, { ...body, output_format: format, n: 1 })).data
    t.same(sizeOf(Buffer.from(encoded, 'base64')), [format, 640, 480])
  }

  const older = await json(path, { model: 'dall-e-3', prompt: 'A boat' })
  t.match(older, { data: [{ url: /^http:.*-1024x1024\.png$/, revised_prompt: 'A boat' }] })
  t.notOk('usage' in older)
  t.equal(
    (await json(path, { ...body, prompt: tell({ images: 1, text: 'Only one boat' }) })).data[0].revised_prompt,
    'Only one boat'
  )
  t.equal(stats.counted.images, 2 + 2 + 1 + 1 + 1 + 1)
  const qualities = await Promise.all(
    ['low', 'medium', 'high'].map(
      async (quality) => (await json(path, { model: 'm', prompt: 'x', quality })).usage.output_tokens
    )
  )
  t.same(qualities, [256, 1024, 4096])
})

t.test('a stream shows a picture on its way, and usage once', async (t) => {
  const { send, json, stats } = await start(t)
  const body = { model: 'm', prompt: 'A boat', size: '64x64', n: 2 }
  const reply = await send(path, { ...body, stream: true, partial_images: 2 })
  t.match(reply.headers['content-type'], /^text\/event-stream/)
  const events = readEvents(reply.body)
  const family = 'image_generation'
  t.same(
    events.map(({ event }) => event),
    [0, 1].flatMap(() => [`${family}.partial_image`, `${family}.partial_image`, `${family}.completed`])
  )
  const data = events.map((event) => JSON.parse(event.data))
  t.ok(data.every(({ type }, i) => type === events[i]!.event))
  t.same(
    data.map((event) => event.partial_image_index),
    [0, 1, undefined, 0, 1, undefined]
  )
  const whole = await json(path, body)
  t.same(
    data.filter(({ type }) => type.endsWith('completed')).map((event) => event.b64_json),
    whole.data.map((entry: any) => entry.b64_json)
  )
  t.same(
    data.map((event) => event.usage?.output_tokens),
    [undefined, undefined, undefined, undefined, undefined, 2 * (4 + 200)]
  )
  t.equal(stats.counted.images, 4)
  const cut = await send(path, {
    model: 'm',
    prompt: tell({ cut: 'error', after_events: 1 }),
    stream: true,
    partial_images: 2
  })
  t.match(JSON.parse(readEvents(cut.body).at(-1)!.data), { error: { code: 'simulated_error' } })
})

t.test('pictures are edited from a form, wherever the model stands in it', async (t) => {
  const { json, upload, stats } = await start(t)
  const [one, two] = [Buffer.from('one'), Buffer.alloc(200_000, 7)]
  const reply = await upload(
    '/v1/images/edits',
    [
      ['image[]', one, 'one.png'],
      ['image[]', two, 'two.png'],
      ['mask', one, 'mask.png'],
      ['prompt', 'Add a sail'],
      ['n', '2'],
      ['size', '64x32'],
      ['quality', 'low'],
      ['model', 'm']
    ],
    { headers: { 'x-request-id': 'edit' } }
  )
  const edited = reply.json()
  t.equal(edited.data.length, 2)
  t.same(sizeOf(Buffer.from(edited.data[0].b64_json, 'base64')), ['png', 64, 32])
  t.match(edited.usage, {
    input_tokens: 3 + 170,
    input_tokens_details: { text_tokens: 3, image_tokens: 170 },
    output_tokens: 2
  })
  t.same(
    stats.uploads.map(({ request, field, filename, bytes, sha256 }) => [request, field, filename, bytes, sha256]),
    [
      ['edit', 'image', 'one.png', 3, hash('sha256', one)],
      ['edit', 'image', 'two.png', 200_000, hash('sha256', two)],
      ['edit', 'mask', 'mask.png', 3, hash('sha256', one)]
    ]
  )
  const streamed = await upload('/v1/images/edits', [
    ['image', one, 'a.png'],
    ['prompt', 'x'],
    ['model', 'm'],
    ['stream', 'true'],
    ['partial_images', '1']
  ])
  t.same(
    readEvents(streamed.body).map(({ event }) => event),
    ['image_edit.partial_image', 'image_edit.completed']
  )
  t.match(await json('/v1/images/edits', { model: 'm', prompt: 'x', images: [{ image_url: 'data:,' }] }), {
    usage: { input_tokens: 86 }
  })

  const varied = await upload('/v1/images/variations', [
    ['model', 'dall-e-2'],
    ['image', one, 'a.png'],
    ['user', tell({ images: 3 })]
  ])
  t.equal(varied.json().data.length, 3)
})

t.test('bad requests for pictures are refused', async (t) => {
  const { send, upload } = await start(t)
  for (const [body, param] of [
    [{ model: 'm' }, 'prompt'],
    [{ model: 'm', prompt: 'x', n: 11 }, 'n'],
    [{ model: 'm', prompt: 'x', size: 'big' }, 'size'],
    [{ model: 'm', prompt: 'x', size: '0x1' }, 'size'],
    [{ model: 'm', prompt: 'x', size: '5000x5' }, 'size'],
    [{ model: 'm', prompt: 'x', response_format: 'png' }, 'response_format'],
    [{ model: 'm', prompt: 'x', output_format: 'constructor' }, 'output_format'],
    [{ model: 'm', prompt: 'x', partial_images: 4 }, 'partial_images']
  ] as const) {
    const reply = await send(path, body)
    t.equal(reply.status, 400)
    t.match(reply.json(), { error: { param } })
  }
  const image = ['image', Buffer.from('x'), 'a.png'] as const
  for (const [parts, param] of [
    [
      [
        ['model', 'm'],
        ['prompt', 'x']
      ],
      'image'
    ],
    [[['model', 'm'], image], 'prompt'],
    [[['model', 'm'], ['prompt', 'x'], ['n', 'two'], image], 'n'],
    [[['prompt', 'x'], image], null],
    [[['model', 'm'], ['prompt', 'x'], ...Array(17).fill(image)], 'image']
  ] as const) {
    const reply = await upload('/v1/images/edits', parts as never)
    t.equal(reply.status, 400)
    t.match(reply.json(), { error: { param } })
  }
  t.match((await send('/v1/images/variations', {})).json(), { error: { message: /multipart/ } })
})

t.test('a form that is broken is refused, and one that breaks off is forgotten', async (t) => {
  const { send, url, stats } = await start(t)
  const headers = { 'content-type': 'multipart/form-data; boundary=b' }
  for (const body of [
    'nothing',
    '--b\r\ncontent-disposition: form-data; name="image"; filename="a"\r\n\r\nabc',
    '--b\r\nbad header\r\n\r\n\r\n--b--\r\n'
  ]) {
    const reply = await send('/v1/images/edits', body, { headers })
    t.equal(reply.status, 400, body)
  }
  t.match((await send('/v1/images/edits', 'x', { headers: { 'content-type': 'multipart/form-data' } })).json(), {
    error: { message: /multipart/ }
  })
  const before = stats.requests
  const client = await connect(t, url)
  client.write(
    'POST /v1/images/edits HTTP/1.1\r\nhost: x\r\ncontent-type: multipart/form-data; boundary=b\r\ncontent-length: 1000\r\n\r\n--b\r\n'
  )
  client.close()
  await eventually(() => stats.connections === 0)
  t.equal(stats.requests, before)
  t.equal(stats.uploads.length, 0)
})
