// Videos and pictures that the simulator makes while somebody polls.
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { eventually } from '../../kit/probe.ts'
import { start, tell } from './kit.ts'
import type { Bench } from './kit.ts'

const quick = { queue_ms: 0, work_ms: 1 }
/** Milliseconds within which a job is over; it waits and works long enough for a busy machine to see it at that. */
const patience = 20_000

async function until(bench: Bench, path: string, status: string): Promise<any> {
  let record: any
  await eventually(async () => (record = await bench.json(path)).status === status, patience)
  return record
}

t.test('a video is queued, made and then there to be read', async (t) => {
  const bench = await start(t)
  const { json, send, upload, stats } = bench
  const parts = [
    ['model', 'sora-2'],
    ['prompt', tell({ queue_ms: 1000, work_ms: 1500 })],
    ['seconds', '8'],
    ['size', '640x360']
  ] as const
  const made = (await upload('/v1/videos', parts, { headers: { 'x-request-id': 'mine' } })).json()
  t.match(made, {
    id: /^video_[0-9a-f]{32}$/,
    object: 'video',
    model: 'sora-2',
    status: 'queued',
    progress: 0,
    completed_at: null,
    expires_at: null,
    prompt: 'Tell me about boats.',
    seconds: '8',
    size: '640x360',
    remixed_from_video_id: null,
    error: null
  })
  const path = `/v1/videos/${made.id}`
  t.equal((await send(`${path}/content`)).status, 404)
  const seen = new Set<string>()
  let progress = 0
  await eventually(async () => {
    const video = await json(path)
    seen.add(video.status)
    t.ok(video.progress >= progress)
    progress = video.progress
    return video.status === 'completed'
  }, patience)
  t.ok(seen.has('in_progress'))
  t.match(await json(path), { progress: 100, completed_at: Number, expires_at: made.created_at + 86_400 })
  t.same(stats.byRequest.get('mine'), { seconds: 8 }, 'counted once, and for who made it')

  const file = await send(`${path}/content`)
  t.equal(file.headers['content-type'], 'video/mp4')
  t.equal(file.body.toString('latin1', 4, 12), 'ftypisom')
  t.equal(file.body.readUInt32BE(file.body.indexOf('mvhd') + 20), 8000, 'eight seconds')
  t.match((await send(`${path}/content?variant=thumbnail`)).body.toString('latin1'), /^RIFF....WEBPVP8L/s)
  t.match((await send(`${path}/content?variant=spritesheet`)).body.toString('latin1'), /^\xff\xd8\xff/)
  t.equal((await send(`${path}/content?variant=x`)).status, 400)

  const remix = await json(`${path}/remix`, { prompt: tell(quick) })
  t.equal(remix.remixed_from_video_id, made.id)
  const list = await json('/v1/videos?limit=1')
  t.match(list, { object: 'list', data: [{ id: remix.id }], has_more: true, first_id: remix.id, last_id: remix.id })
  t.match(await json(`/v1/videos?after=${remix.id}`), { data: [{ id: made.id }], has_more: false })
  t.same(
    (await json('/v1/videos?order=asc')).data.map(({ id }: any) => id),
    [made.id, remix.id]
  )
  t.same(await json(path, undefined, { method: 'DELETE' }), { id: made.id, object: 'video.deleted', deleted: true })
  t.match((await send(path)).json(), { error: { code: 'video_not_found' } })
})

t.test('a task has an address when it succeeded, in the words of the vendor', async (t) => {
  const bench = await start(t)
  const { json, send, stats } = bench
  const states = { queued: 'PENDING', in_progress: 'RUNNING', completed: 'SUCCEEDED' }
  const made = await json('/v1/video/generations', {
    model: 'm',
    prompt: tell({ queue_ms: 1000, work_ms: 1500, states }),
    duration: 5,
    width: 64,
    height: 48
  })
  t.match(made, {
    task_id: /^task_/,
    object: 'video.generation.task',
    status: 'PENDING',
    url: null,
    usage: null,
    completed_at: null
  })
  t.equal(made.id, made.task_id)
  const path = `/v1/video/generations/${made.task_id}`
  await until(bench, path, 'RUNNING')
  const done = await until(bench, path, 'SUCCEEDED')
  t.match(done, {
    progress: 100,
    format: 'mp4',
    metadata: { duration: 5, width: 64, height: 48 },
    usage: { seconds: 5 },
    error: null
  })
  const file = await send(new URL(done.url).pathname)
  t.match(file, { status: 200, headers: { 'content-type': 'video/mp4' } })

  const images = await json('/v1/images/generations/async', { model: 'm', prompt: tell(quick), n: 2, size: '32x32' })
  t.match(images, { object: 'image.generation.task', url: null, data: null })
  const ready = await until(bench, `/v1/images/generations/async/${images.task_id}`, 'succeeded')
  t.equal(ready.data.length, 2)
  t.equal(ready.url, ready.data[0].url)
  t.match(await send(new URL(ready.url).pathname), { status: 200, headers: { 'content-type': 'image/png' } })
  t.match(ready.usage, { output_tokens: 2 })
  t.match(stats.counted, { seconds: 5, images: 2, completion: 2 })
  t.match(
    (await send(`/v1/video/generations/${images.task_id}`)).json(),
    { error: { code: 'task_not_found' } },
    'of another kind'
  )
})

t.test('a job fails, is cancelled, expires or is never begun, and then nothing is counted', async (t) => {
  const bench = await start(t)
  const { json, send, stats } = bench
  const begin = async (directive: object): Promise<string> =>
    `/v1/video/generations/${(await json('/v1/video/generations', { model: 'm', prompt: tell(directive) })).id}`
  const failed = await until(bench, await begin({ ...quick, fail: { code: 'content_policy' } }), 'failed')
  t.match(failed, { url: null, usage: null, completed_at: Number, error: { code: 'content_policy', message: String } })

  for (const [method, more] of [
    ['DELETE', ''],
    ['POST', '/cancel']
  ] as const) {
    const path = await begin({ queue_ms: 0, work_ms: 4000 })
    t.match(await json(path + more, undefined, { method }), { status: 'cancelled', url: null, error: null })
    await sleep(4020)
    t.match(await json(path), { status: 'cancelled' }, 'it stays that')
  }
  const video = await json('/v1/videos', { prompt: tell({ queue_ms: 5000, work_ms: 5000 }) })
  await json(`/v1/videos/${video.id}`, undefined, { method: 'DELETE' })
  const path = await begin({ ...quick, work_ms: 10_000, expire_ms: 10 })
  await eventually(async () => (await send(path)).status === 404)
  t.equal((await send('/v1/videos', { prompt: tell({ status: 429 }) })).status, 429)
  t.same(
    (await json('/v1/videos')).data.map(({ error }: any) => error.code),
    ['cancelled', 'cancelled', 'content_policy'],
    'tasks are videos too; the refused one is none'
  )
  await sleep(4020)
  t.same(stats.counted, {})
})

t.test('calls about a job obey what its maker said about later', async (t) => {
  const { json, send } = await start(t)
  const later = [
    { status: 500 },
    { status: 404, body: { error: { message: 'gone' } } },
    { cut: 'reset' as const },
    { first_byte_ms: 30 }
  ]
  const { id } = await json('/v1/videos', { prompt: tell({ ...quick, later, bytes: 300_000 }), size: '64x64' })
  const path = `/v1/videos/${id}`
  t.equal((await send(path)).status, 500)
  t.match((await send(path)).json(), { error: { message: 'gone' } })
  await t.rejects(send(path))
  const began = performance.now()
  t.equal((await send(path)).status, 200)
  t.ok(performance.now() - began >= 30)
  const file = await send(`${path}/content`)
  t.equal(file.body.length, 300_000, 'a file of exactly so many bytes')
  t.equal(file.body.indexOf('free') > 0, true)
  for (const [body, param] of [
    [{}, 'prompt'],
    [{ prompt: 'x', seconds: '0' }, 'seconds'],
    [{ prompt: 'x', size: '1' }, 'size'],
    [{ prompt: tell({ later: [{ x: 1 }] as never }) }, 'prompt']
  ] as const) {
    const reply = await send('/v1/videos', body)
    t.equal(reply.status, 400)
    t.match(reply.json(), { error: { param } })
  }
})
