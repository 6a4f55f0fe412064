// Sounds that the simulator makes and hears.
import t from 'tap'
import { soundFormats } from '../../../core/simulator/media/formats.ts'
import { soundOf } from '../../../core/simulator/media/sound.ts'
import { countTokens } from '../../../core/simulator/words/tokens.ts'
import { connect } from '../../kit/client.ts'
import { readEvents } from '../../kit/sse.ts'
import { start, tell } from './kit.ts'
import type { Parts } from './kit.ts'

const spoken = '/v1/audio/speech'
const heard = '/v1/audio/transcriptions'
const sound = (name: string, seconds: number): Buffer<ArrayBuffer> =>
  Buffer.concat([...soundOf(soundFormats[name]!, seconds)])

t.test('speech is a file of its type, as long as the text takes to read', async (t) => {
  const { send, stats } = await start(t)
  const body = { model: 'm', voice: 'alloy', input: 'Ahoy '.repeat(9) }
  const begins: Record<string, [type: string, bytes: RegExp]> = {
    mp3: ['audio/mpeg', /^\xff\xf3/],
    opus: ['audio/ogg', /^OggS[^]*OpusHead/],
    aac: ['audio/aac', /^\xff\xf1/],
    flac: ['audio/flac', /^fLaC/],
    wav: ['audio/wav', /^RIFF....WAVEfmt /s],
    pcm: ['audio/pcm', /^\0\0/]
  }
  for (const [format, [type, beginning]] of Object.entries(begins)) {
    const reply = await send(spoken, { ...body, response_format: format })
    t.same([reply.status, reply.headers['content-type'], reply.headers['transfer-encoding']], [200, type, 'chunked'])
    t.match(reply.body.toString('latin1'), beginning, format)
  }
  t.equal((await send(spoken, body)).headers['content-type'], 'audio/mpeg')
  const wav = await send(spoken, { ...body, response_format: 'wav', speed: 0.5 })
  t.equal(wav.body.length, 44 + 48_000 * 6, 'three seconds at half the speed')
  t.equal(wav.body.readUInt32LE(40), 48_000 * 6)
  t.equal(stats.counted.characters, 45 * 8)
})

t.test('speech comes in pieces, as slow and as large as told', async (t) => {
  const { url, send } = await start(t)
  const body = (directive: object): object => ({
    model: 'm',
    voice: 'alloy',
    input: tell(directive),
    response_format: 'pcm'
  })
  const client = await connect(t, url)
  client.send({ path: spoken, body: body({ chunks: 5, gap_ms: 20 }) })
  await client.reply()
  t.ok(client.reads.length >= 5, 'one by one')
  for (const format of Object.keys(soundFormats)) {
    const exact = await send(spoken, { ...body({ bytes: 50_001, chunks: 4 }), response_format: format })
    t.equal(exact.body.length, 50_001, format)
  }
  const cut = await connect(t, url)
  cut.send({ path: spoken, body: body({ bytes: 100_000, cut: 'reset', after_bytes: 40_000 }) })
  const { complete, body: part } = await cut.reply()
  t.same([complete, part.length], [false, 40_000])
})

t.test('speech as events ends with what it cost', async (t) => {
  const { send, stats } = await start(t)
  const body = { model: 'm', voice: { id: 'own' }, input: 'Ahoy there', response_format: 'pcm' }
  const bytes = (await send(spoken, body)).body
  const events = readEvents((await send(spoken, { ...body, stream_format: 'sse' })).body).map(({ data }) =>
    JSON.parse(data)
  )
  const done = events.pop()
  t.ok(events.every(({ type }) => type === 'speech.audio.delta'))
  t.ok(Buffer.concat(events.map(({ audio }) => Buffer.from(audio, 'base64'))).equals(bytes))
  t.same(done, { type: 'speech.audio.done', usage: { input_tokens: 2, output_tokens: 14, total_tokens: 16 } })
  t.match(stats.counted, { prompt: 4, completion: 28, characters: 20 })
})

t.test('a recording is measured and given back in every form', async (t) => {
  const { upload, stats } = await start(t)
  const ask = async (...parts: Parts): Promise<any> => {
    const reply = await upload(heard, [['file', sound('wav', 10), 'talk.wav'], ['model', 'm'], ...parts])
    t.equal(reply.status, 200, reply.text)
    return /json/.test(reply.headers['content-type']!) ? reply.json() : [reply.headers['content-type'], reply.text]
  }
  const { text, usage } = await ask()
  t.equal(countTokens(text), 25)
  t.same(usage, {
    type: 'tokens',
    input_tokens: 100,
    output_tokens: 25,
    total_tokens: 125,
    input_token_details: { text_tokens: 0, audio_tokens: 100 }
  })
  t.same(stats.counted, { prompt: 100, completion: 25, seconds: 10 })
  t.same(await ask(['response_format', 'text']), ['text/plain; charset=utf-8', text])

  const said = ['prompt', tell({ text: 'Boats float. They do!' })] as const
  t.same(
    (await ask(said, ['response_format', 'srt']))[1],
    '1\n00:00:00,000 --> 00:00:06,000\nBoats float.\n\n2\n00:00:06,000 --> 00:00:10,000\nThey do!\n\n'
  )
  t.match(
    (await ask(said, ['response_format', 'vtt']))[1],
    /^WEBVTT\n\n00:00:00\.000 --> 00:00:06\.000\nBoats float\.\n/
  )
  const verbose = await ask(
    said,
    ['response_format', 'verbose_json'],
    ['timestamp_granularities[]', 'word'],
    ['timestamp_granularities[]', 'segment'],
    ['language', 'en']
  )
  t.match(verbose, {
    task: 'transcribe',
    language: 'en',
    duration: 10,
    text: 'Boats float. They do!',
    segments: [
      { id: 0, start: 0, end: 6 },
      { id: 1, end: 10 }
    ]
  })
  t.same(
    verbose.words.map(({ word }: any) => word),
    ['Boats', 'float.', 'They', 'do!']
  )
  t.notOk('words' in (await ask(said, ['response_format', 'verbose_json'])))
  t.match(await ask(said, ['response_format', 'diarized_json']), {
    segments: [{ id: 'seg_1', speaker: 'A' }, { speaker: 'B' }]
  })
  t.match(await ask(['prompt', tell({ usage: null })]), { usage: undefined })

  const events = readEvents(
    (
      await upload(heard, [
        ['file', sound('wav', 10), 'talk.wav'],
        ['model', 'm'],
        ['stream', 'true']
      ])
    ).body
  ).map(({ data }) => JSON.parse(data))
  t.same(events.pop(), { type: 'transcript.text.done', text, usage })
  t.equal(events.map(({ delta }) => delta).join(''), text)
  t.equal(events.length, 25)

  const whisper = await upload(heard, [
    ['model', 'whisper-1'],
    ['file', sound('wav', 2.5), 'a.wav']
  ])
  t.same(whisper.json().usage, { type: 'duration', seconds: 2.5 })
  const translated = await upload('/v1/audio/translations', [
    ['file', sound('mp3', 2.4), 'a.mp3'],
    ['model', 'whisper-1'],
    ['response_format', 'verbose_json']
  ])
  t.match(translated.json(), { task: 'translate', language: 'english', duration: 2.4 })
  t.match(
    (
      await upload(heard, [
        ['file', sound('flac', 4096 / 24_000), 'a.flac'],
        ['model', 'whisper-1']
      ])
    ).json().usage,
    { seconds: 0.171 }
  )
  t.match(
    (
      await upload(heard, [
        ['file', Buffer.alloc(32_000), 'a.bin'],
        ['model', 'whisper-1']
      ])
    ).json().usage,
    { seconds: 2 }
  )
})

t.test('bad requests for sounds are refused', async (t) => {
  const { send, upload } = await start(t)
  for (const [body, param] of [
    [{ voice: 'x' }, 'input'],
    [{ input: 'x' }, 'voice'],
    [{ input: 'x', voice: 3 }, 'voice'],
    [{ input: 'x'.repeat(4097), voice: 'x' }, 'input'],
    [{ input: 'x', voice: 'x', speed: 5 }, 'speed'],
    [{ input: 'x', voice: 'x', response_format: 'midi' }, 'response_format']
  ] as const) {
    const reply = await send(spoken, { model: 'm', ...body })
    t.equal(reply.status, 400)
    t.match(reply.json(), { error: { param } })
  }
  const file = ['file', sound('wav', 1), 'a.wav'] as const
  for (const [path, parts, param] of [
    [heard, [['model', 'm']], 'file'],
    [heard, [file], null],
    [
      heard,
      [
        ['model', 'm'],
        ['file', Buffer.alloc(0), 'a.wav']
      ],
      'file'
    ],
    [heard, [['model', 'm'], file, ['response_format', 'xml']], 'response_format'],
    [heard, [['model', 'm'], file, ['timestamp_granularities[]', 'word']], 'timestamp_granularities'],
    [heard, [['model', 'm'], file, ['temperature', '2']], 'temperature'],
    ['/v1/audio/translations', [['model', 'm'], file, ['response_format', 'diarized_json']], 'response_format']
  ] as const) {
    const reply = await upload(path, parts)
    t.equal(reply.status, 400)
    t.match(reply.json(), { error: { param } })
  }
})
