// OpenAI's library on its videos, against the running gateway with a simulator behind it.
import type OpenAI from 'openai'
import t from 'tap'
import { gateway, testKey } from '../kit/gateway.ts'
import { settled } from '../kit/probe.ts'
import { openaiMajors } from './clients/openai.ts'

t.setTimeout(600_000)

for (const [major, Constructor] of Object.entries(openaiMajors)) {
  t.test(`${major}: videos are made, listed, fetched and deleted`, async (t) => {
    const local = await gateway(t, {
      tasks: { poll: { first: '20ms', most: '50ms' } },
      models: { demo: { price: { second: 0.1 } } }
    })
    const { videos } = new Constructor({ baseURL: `${local.url}/v1`, apiKey: testKey, maxRetries: 0 }) as OpenAI
    const quick = '[[simulator {"queue_ms": 10, "work_ms": 30}]]'
    const made = await videos.create({
      model: 'demo' as OpenAI.VideoModel,
      prompt: `A boat ${quick}`,
      seconds: '8',
      size: '720x1280',
      input_reference: new File([png], 'first.png', { type: 'image/png' })
    })
    t.match(made, {
      id: /^task_/,
      object: 'video',
      model: 'demo',
      status: /queued|in_progress/,
      seconds: '8',
      size: '720x1280'
    })
    const over = async (id: string): Promise<OpenAI.Video> => {
      let video = await videos.retrieve(id)
      while (video.status === 'queued' || video.status === 'in_progress') video = await videos.retrieve(id)
      return video
    }
    t.match(await over(made.id), { id: made.id, status: 'completed', progress: 100, error: null })
    const file = await videos.downloadContent(made.id)
    t.equal(file.headers.get('content-type'), 'video/mp4')
    t.equal(
      Buffer.from(await file.arrayBuffer())
        .subarray(4, 8)
        .toString(),
      'ftyp'
    )
    t.equal((await videos.downloadContent(made.id, { variant: 'thumbnail' })).headers.get('content-type'), 'image/webp')

    const failing = await videos.create({
      model: 'demo' as OpenAI.VideoModel,
      prompt: 'A boat [[simulator {"queue_ms": 0, "work_ms": 10, "fail": {"code": "blocked"}}]]'
    })
    t.match(await over(failing.id), { status: 'failed', error: { code: 'blocked' } })
    const ids: string[] = []
    for await (const { id } of videos.list({ limit: 1 })) ids.push(id)
    t.same(ids, [failing.id, made.id])
    t.match(await videos.delete(made.id), { id: made.id, object: 'video.deleted', deleted: true })
    t.match(await videos.retrieve(made.id).catch((error: unknown) => error), { status: 404, code: 'task_not_found' })
    t.match(await videos.downloadContent(failing.id).catch((error: unknown) => error), {
      status: 409,
      code: 'task_not_ready'
    })
    await settled(t, local)
  })
}

/** A picture of one point. */
const png = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==',
  'base64'
)
