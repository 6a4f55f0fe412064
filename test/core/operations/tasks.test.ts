// Tasks: videos and pictures that are made after their request was answered, on both faces, and what becomes of their money.
import t from 'tap'
import type { Test } from 'tap'
import { gateway } from '../../kit/gateway.ts'
import type { LocalGateway, Overrides } from '../../kit/gateway.ts'
import { eventually, settled } from '../../kit/probe.ts'

t.setTimeout(30_000)

/** A second of video costs a dollar, and a picture two. */
const price = { second: 1, image: 2, input: 1, output: 2 }
const tasks = { poll: { first: '20ms', most: '50ms' } }

/** A gateway in front of the simulator, which is asked soon and often. */
function open(t: Test, more: Overrides = {}): Promise<LocalGateway> {
  return gateway(t, { tasks, models: { demo: { price } }, ...more })
}

/** A prompt with what the simulator is to do: a short queue, and short work. */
function prompt(directive: object = {}): string {
  return `A boat [[simulator ${JSON.stringify({ queue_ms: 20, work_ms: 40, ...directive })}]]`
}

const video = '/v1/video/generations'
const pictures = '/v1/images/generations/async'

async function untilOver({ ask }: LocalGateway, path: string): Promise<any> {
  let body: any
  await eventually(async () => {
    body = (await ask({ path })).json()
    return !['queued', 'in_progress'].includes(body.status)
  }, 5000)
  return body
}

t.test('a video is begun, made and paid by the second', async (t) => {
  const running = await open(t)
  const begun = await running.ask({ path: video, body: { model: 'demo', prompt: prompt(), duration: 5, width: 640, height: 480 } })
  t.equal(begun.status, 202, begun.text)
  const task = begun.json() as any
  t.match(task, { id: /^task_[\w-]{32}$/, task_id: task.id, object: 'video.generation.task', model: 'demo', status: 'queued', progress: 0, url: null, completed_at: null, usage: null, error: null })
  t.equal(begun.headers['location'], `${video}/${task.id}`)
  t.match(begun.headers['retry-after'], /^\d+$/)
  const over = await untilOver(running, `${video}/${task.id}`)
  t.match(over, { id: task.id, status: 'succeeded', progress: 100, url: `${running.url}${video}/${task.id}/content`, metadata: { duration: 5, width: 640, height: 480 }, usage: { seconds: 5 } })
  const file = await running.ask({ path: `${video}/${task.id}/content` })
  t.equal(file.status, 200)
  t.equal(file.headers['content-type'], 'video/mp4')
  t.match(await running.record(begun), { status: 202, outcome: 'completed', endpoint: 'videos.generations', usage: { second: 5 }, usage_source: 'upstream', cost_usd: '5', channel: 'demo' })
  await settled(t, running)
})

t.test('pictures of an upstream that answers only when they are there are a task all the same', async (t) => {
  const running = await open(t)
  const begun = await running.ask({ path: pictures, body: { model: 'demo', prompt: 'A boat', size: '64x64', n: 2, response_format: 'url' } })
  t.equal(begun.status, 202, begun.text)
  const task = begun.json() as any
  t.match(task, { id: /^task_[\w-]{32}$/, object: 'image.generation.task', status: 'queued', url: null, data: null })
  t.equal(begun.headers['location'], `${pictures}/${task.id}`)
  const over = await untilOver(running, `${pictures}/${task.id}`)
  t.match(over, { status: 'succeeded', progress: 100, usage: { images: 2 }, data: [{ url: /^http/ }, { url: /^http/ }] })
  t.equal(over.url, over.data[0].url)
  t.match(await running.record(begun), { status: 200, outcome: 'completed', endpoint: 'images.async', usage: { image: 2 }, channel: 'demo' })
  await settled(t, running)
})

t.test('what failed, was called off or deleted costs nothing', async (t) => {
  const running = await open(t)
  const failing = (await running.ask({ path: video, body: { model: 'demo', prompt: prompt({ fail: { code: 'blocked', message: 'No boats.' } }) } })).json() as any
  t.match(await untilOver(running, `${video}/${failing.id}`), { status: 'failed', url: null, error: { code: 'blocked', message: 'No boats.' } })

  const endless = { model: 'demo', prompt: prompt({ work_ms: 60_000 }) }
  const off = (await running.ask({ path: video, body: endless })).json() as any
  const cancelled = await running.ask({ method: 'POST', path: `${video}/${off.id}/cancel` })
  t.match(cancelled.json(), { id: off.id, status: 'cancelled', url: null, error: null })
  t.match((await running.ask({ method: 'POST', path: `${video}/${off.id}/cancel` })).json(), cancelled.json() as object, 'what has ended stays as it is')

  const gone = (await running.ask({ path: '/v1/videos', body: endless })).json() as any
  t.match(gone, { object: 'video', status: /queued|in_progress/, seconds: '4' })
  t.same((await running.ask({ method: 'DELETE', path: `/v1/videos/${gone.id}` })).json(), { id: gone.id, object: 'video.deleted', deleted: true })
  t.equal((await running.ask({ path: `/v1/videos/${gone.id}` })).status, 404)

  const picture = (await running.ask({ path: pictures, body: { model: 'demo', prompt: 'A boat [[simulator {"status": 400, "body": {"error": {"message": "No.", "code": "blocked"}}}]]' } })).json() as any
  t.match(await untilOver(running, `${pictures}/${picture.id}`), { status: 'failed', error: { message: /./ } })
  const slow = (await running.ask({ path: pictures, body: { model: 'demo', prompt: 'A boat [[simulator {"first_byte_ms": 60000}]]' } })).json() as any
  t.match((await running.ask({ method: 'POST', path: `${pictures}/${slow.id}/cancel` })).json(), { status: 'cancelled' })
  await settled(t, running)
  const { data } = await running.admin('/admin/v1/requests?limit=100')
  t.same(data.filter(({ cost_nano }: { cost_nano: string }) => cost_nano !== '0'), [], 'nothing was charged')
  t.equal(data.filter(({ error_code }: { error_code: string }) => error_code === 'task_cancelled').length, 2)
})
