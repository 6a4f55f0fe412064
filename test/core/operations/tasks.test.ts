// Tasks: videos and pictures that are made after their request was answered, on both faces, and what becomes of their
// money.
import t from 'tap'
import type { Test } from 'tap'
import { gateway, testKey } from '../../kit/gateway.ts'
import type { LocalGateway, Overrides } from '../../kit/gateway.ts'
import { eventually, settled } from '../../kit/probe.ts'

t.setTimeout(600_000)

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

const secretOf = (name: string): string => `sk-test-${name}-000000000000000000000000`
const video = '/v1/video/generations'
const pictures = '/v1/images/generations/async'

async function untilOver({ ask }: LocalGateway, path: string): Promise<any> {
  let body: any
  await eventually(async () => {
    body = (await ask({ path })).json()
    return !['queued', 'in_progress'].includes(body.status)
  }, 10_000)
  return body
}

t.test('a video is begun, made and paid by the second', async (t) => {
  const running = await open(t)
  const begun = await running.ask({
    path: video,
    body: { model: 'demo', prompt: prompt(), duration: 5, width: 640, height: 480 }
  })
  t.equal(begun.status, 202, begun.text)
  const task = begun.json() as any
  t.match(task, {
    id: /^task_[\w-]{32}$/,
    task_id: task.id,
    object: 'video.generation.task',
    model: 'demo',
    status: /queued|in_progress/,
    progress: Number,
    url: null,
    completed_at: null,
    usage: null,
    error: null
  })
  t.equal(begun.headers['location'], `${video}/${task.id}`)
  t.match(begun.headers['retry-after'], /^\d+$/)
  const over = await untilOver(running, `${video}/${task.id}`)
  t.match(over, {
    id: task.id,
    status: 'succeeded',
    progress: 100,
    url: `${running.url}${video}/${task.id}/content`,
    metadata: { duration: 5, width: 640, height: 480 },
    usage: { seconds: 5 }
  })
  const file = await running.ask({ path: `${video}/${task.id}/content` })
  t.equal(file.status, 200)
  t.equal(file.headers['content-type'], 'video/mp4')
  t.match(await running.record(begun), {
    status: 202,
    outcome: 'completed',
    endpoint: 'videos.generations',
    usage: { second: 5 },
    usage_source: 'upstream',
    cost_usd: '5',
    channel: 'demo'
  })
  await settled(t, running)
})

t.test('pictures of an upstream that answers only when they are there are a task all the same', async (t) => {
  const running = await open(t)
  const begun = await running.ask({
    path: pictures,
    body: { model: 'demo', prompt: 'A boat', size: '64x64', n: 2, response_format: 'url' }
  })
  t.equal(begun.status, 202, begun.text)
  const task = begun.json() as any
  t.match(task, {
    id: /^task_[\w-]{32}$/,
    object: 'image.generation.task',
    status: /queued|in_progress/,
    url: null,
    data: null
  })
  t.equal(begun.headers['location'], `${pictures}/${task.id}`)
  const over = await untilOver(running, `${pictures}/${task.id}`)
  t.match(over, {
    status: 'succeeded',
    progress: 100,
    usage: { images: 2 },
    data: [{ url: /^http/ }, { url: /^http/ }]
  })
  t.equal(over.url, over.data[0].url)
  t.match(await running.record(begun), {
    status: 200,
    outcome: 'completed',
    endpoint: 'images.async',
    usage: { image: 2 },
    channel: 'demo'
  })
  await settled(t, running)
})

t.test(
  'what failed costs nothing that was not made, and what was called off what its upstream makes all the same',
  async (t) => {
    const running = await open(t, { limits: { on_disconnect: 'abort' } })
    const failing = (
      await running.ask({
        path: video,
        body: { model: 'demo', prompt: prompt({ fail: { code: 'blocked', message: 'No boats.' } }) }
      })
    ).json() as any
    t.match(await untilOver(running, `${video}/${failing.id}`), {
      status: 'failed',
      url: null,
      error: { code: 'blocked', message: 'No boats.' }
    })

    const endless = { model: 'demo', prompt: prompt({ work_ms: 60_000 }) }
    const off = (await running.ask({ path: video, body: endless })).json() as any
    const cancelled = await running.ask({ method: 'POST', path: `${video}/${off.id}/cancel` })
    t.match(cancelled.json(), { id: off.id, status: 'cancelled', url: null, error: null })
    t.match(
      (await running.ask({ method: 'POST', path: `${video}/${off.id}/cancel` })).json(),
      cancelled.json() as object,
      'what has ended stays as it is'
    )

    const gone = (await running.ask({ path: '/v1/videos', body: endless })).json() as any
    t.match(gone, { object: 'video', status: /queued|in_progress/, seconds: '4' })
    t.same((await running.ask({ method: 'DELETE', path: `/v1/videos/${gone.id}` })).json(), {
      id: gone.id,
      object: 'video.deleted',
      deleted: true
    })
    t.equal((await running.ask({ path: `/v1/videos/${gone.id}` })).status, 404)

    const picture = (
      await running.ask({
        path: pictures,
        body: {
          model: 'demo',
          prompt: 'A boat [[simulator {"status": 400, "body": {"error": {"message": "No.", "code": "blocked"}}}]]'
        }
      })
    ).json() as any
    t.match(await untilOver(running, `${pictures}/${picture.id}`), { status: 'failed', error: { message: /./ } })
    const slow = (
      await running.ask({
        path: pictures,
        body: { model: 'demo', prompt: 'A boat [[simulator {"first_byte_ms": 60000}]]' }
      })
    ).json() as any
    t.match((await running.ask({ method: 'POST', path: `${pictures}/${slow.id}/cancel` })).json(), {
      status: 'cancelled'
    })
    await settled(t, running)
    const { data } = await running.admin('/admin/v1/requests?limit=100')
    t.match(
      data.filter(({ usage }: { usage: Record<string, number> | null }) => usage?.['second'] ?? usage?.['image']),
      [{ endpoint: 'images.async', outcome: 'aborted', usage: { image: 1 }, usage_source: 'estimated' }],
      'the picture alone, which nobody waits for, and which is made'
    )
    t.equal(data.filter(({ error_code }: { error_code: string }) => error_code === 'task_cancelled').length, 2)
  }
)

t.test('both faces show one task, and the list has those of the project, a page at a time', async (t) => {
  const running = await open(t, {
    tenants: { acme: { projects: { web: {}, app: {} } } },
    keys: [
      { name: 'test', key: testKey, tenant: 'acme', project: 'web' },
      { name: 'app', key: secretOf('app'), tenant: 'acme', project: 'app' }
    ]
  })
  const ids: string[] = []
  for (let i = 0; i < 3; i++)
    ids.push(
      (
        (
          await running.ask({
            path: i === 1 ? video : '/v1/videos',
            body: { model: 'demo', prompt: prompt(), seconds: '4' }
          })
        ).json() as any
      ).id
    )
  await running.ask({
    path: '/v1/videos',
    headers: { authorization: `Bearer ${secretOf('app')}` },
    body: { model: 'demo', prompt: prompt() }
  })
  for (const id of ids) {
    t.match(await untilOver(running, `${video}/${id}`), { status: 'succeeded', usage: { seconds: 4 } })
    t.match((await running.ask({ path: `/v1/videos/${id}` })).json(), {
      id,
      object: 'video',
      status: 'completed',
      progress: 100,
      seconds: '4',
      expires_at: Number,
      error: null,
      prompt: /A boat/
    })
  }
  const list = async (query: string): Promise<any> => (await running.ask({ path: `/v1/videos${query}` })).json()
  const newest = [...ids].reverse()
  t.match(await list(''), {
    object: 'list',
    data: newest.map((id) => ({ id, status: 'completed' })),
    first_id: newest[0],
    last_id: newest[2],
    has_more: false
  })
  t.match(await list('?limit=2'), { data: newest.slice(0, 2).map((id) => ({ id })), has_more: true })
  t.match(await list(`?limit=2&after=${newest[1]}`), { data: [{ id: newest[2] }], has_more: false })
  t.match(await list('?order=asc&limit=1'), { data: [{ id: ids[0] }], has_more: true })
  for (const query of ['?limit=0', '?limit=x', '?order=up'])
    t.equal((await running.ask({ path: `/v1/videos${query}` })).status, 400, query)
})

t.test(
  'a task is found by its project alone: foreign, unknown, deleted and expired ones, and those of another kind, are one answer',
  async (t) => {
    const keys = [
      { name: 'test', key: testKey, tenant: 'acme', project: 'web' },
      ...['app', 'rival', 'nobody'].map((name) => ({
        name,
        key: secretOf(name),
        tenant: name === 'rival' ? 'rival' : 'acme',
        ...(name === 'app' && { project: 'app' })
      }))
    ]
    const running = await open(t, {
      tasks: { ...tasks, keep: '300ms' },
      tenants: { acme: { projects: { web: {}, app: {} } }, rival: {} },
      keys
    })
    const begin = async (path: string): Promise<string> =>
      ((await running.ask({ path, body: { model: 'demo', prompt: prompt({ work_ms: 600_000 }) } })).json() as any).id
    const [own, deleted, expired] = [
      await begin(video),
      await begin(video),
      (
        (
          await running.ask({ path: video, body: { model: 'demo', prompt: prompt({ queue_ms: 0, work_ms: 1 }) } })
        ).json() as any
      ).id as string
    ]
    const picture = (
      (
        await running.ask({
          path: pictures,
          body: { model: 'demo', prompt: 'A boat [[simulator {"first_byte_ms": 600000}]]' }
        })
      ).json() as any
    ).id as string
    await running.ask({ method: 'DELETE', path: `${video}/${deleted}` })
    await untilOver(running, `${video}/${expired}`)
    await eventually(async () => (await running.ask({ path: `${video}/${expired}` })).status === 404, 10_000)

    const calls = (path: string, id: string): [string, string][] => [
      ['GET', `${path}/${id}`],
      ['POST', `${path}/${id}/cancel`],
      ['DELETE', `${path}/${id}`],
      ...(path === pictures ? [] : [['GET', `${path}/${id}/content`] as [string, string]])
    ]
    const answers = new Set<string>()
    const tried: string[] = []
    const tryAll = async (paths: readonly string[], id: string, key = testKey): Promise<void> => {
      for (const path of paths)
        for (const [method, target] of calls(path, id)) {
          const { status, text } = await running.ask({
            method,
            path: target,
            headers: { authorization: `Bearer ${key}` }
          })
          answers.add(`${status} ${text}`)
          if (status !== 404) tried.push(`${method} ${target} ${status}`)
        }
    }
    const faces = [video, '/v1/videos', pictures]
    for (const name of ['app', 'rival', 'nobody']) {
      await tryAll([video, '/v1/videos'], own, secretOf(name))
      await tryAll([pictures], picture, secretOf(name))
    }
    for (const id of [deleted, expired, `task_${'A'.repeat(32)}`, '..%2Fmodels', '%3Fa', 'x'.repeat(300)])
      await tryAll(faces, id)
    await tryAll([pictures], own)
    await tryAll([video, '/v1/videos'], picture)
    t.same(tried, [])
    t.same(
      [...answers],
      ['404 {"error":{"message":"Task not found","type":"not_found_error","code":"task_not_found"}}']
    )
    for (const [path, id] of [
      [video, own],
      [pictures, picture]
    ] as const)
      t.match(
        (await running.ask({ path: `${path}/${id}` })).json(),
        { id, status: /queued|in_progress/ },
        'nobody has touched it'
      )
  }
)

t.test('what a request may not do, a task may not either', async (t) => {
  const running = await open(t, {
    models: { demo: { price }, other: { price } },
    channels: { demo: { protocol: 'simulator', models: { demo: 'demo', other: 'other' } } },
    keys: [
      { name: 'test', key: testKey, tenant: 'acme', budget: { usd: 23, per: 'day' } },
      { name: 'chat', key: secretOf('chat'), tenant: 'acme', endpoints: ['chat'] }
    ]
  })
  const refused = async (body: object, more: object = {}): Promise<unknown> => {
    const { status, json } = await running.ask({
      path: video,
      body: { model: 'demo', prompt: prompt({ work_ms: 60_000 }), ...body },
      ...more
    })
    return [status, (json() as any).error?.code]
  }
  t.same(await refused({ seconds: 30 }), [429, 'quota_key_exceeded'], 'thirty seconds are thirty dollars')
  for (const body of [
    { seconds: 0 },
    { seconds: -4 },
    { seconds: '4x' },
    { seconds: [4] },
    { seconds: 4, duration: 5 },
    { Seconds: 4 }
  ])
    t.same(await refused(body), [400, 'invalid_field'], JSON.stringify(body))
  t.same(
    await refused({ prompt: prompt({ status: 400, body: { error: { message: 'No.', code: 'blocked' } } }) }),
    [400, 'blocked'],
    'a refusal is no task'
  )
  t.same(await refused({}, { headers: { authorization: `Bearer ${secretOf('chat')}` } }), [403, 'endpoint_not_allowed'])
  t.same(
    (await running.ask({ path: pictures, body: { model: 'demo', prompt: 'A boat', stream: true } })).status,
    400,
    'a task has no stream'
  )
  t.match(await refused({ seconds: 12 }), [202, undefined])
  t.same(
    await refused({}),
    [429, 'quota_key_exceeded'],
    'the first holds what is left, and what is asked for without a length holds twelve seconds'
  )
})

t.test('every reply about what a deprecated model makes says when it goes', async (t) => {
  const retiring = {
    deprecation: '@1767225600',
    sunset: 'Fri, 01 Jan 2027 00:00:00 GMT',
    link: '</v1/models/next>; rel="successor-version"'
  }
  const model = { price, deprecated: { since: '2026-01-01', sunset: '2027-01-01', replacement: 'next' } }
  const running = await open(t, {
    models: { demo: model },
    channels: {
      demo: { protocol: 'simulator', endpoints: ['responses', 'images', 'videos'], models: { demo: 'demo' } }
    }
  })
  const told = async (parts: Parameters<typeof running.ask>[0], status: number): Promise<any> => {
    const reply = await running.ask(parts)
    t.match(reply, { status, headers: retiring }, `${parts.method ?? 'GET'} ${parts.path}`)
    return reply.headers['content-type']?.startsWith('application/json') ? reply.json() : undefined
  }
  const slow = await told(
    { path: video, body: { model: 'demo', prompt: prompt({ work_ms: 60_000 }), seconds: 1 } },
    202
  )
  await told({ path: `${video}/${slow.id}` }, 200)
  await told({ path: `${video}/${slow.id}/content` }, 409)
  await told({ method: 'POST', path: `/v1/videos/${slow.id}/cancel` }, 200)
  await told({ method: 'DELETE', path: `/v1/videos/${slow.id}` }, 200)
  const { id } = await told({ path: video, body: { model: 'demo', prompt: prompt(), seconds: 1 } }, 202)
  await untilOver(running, `${video}/${id}`)
  await told({ path: `/v1/videos/${id}/content` }, 200)
  const drawn = await told({ path: pictures, body: { model: 'demo', prompt: 'A boat', size: '64x64' } }, 202)
  await untilOver(running, `${pictures}/${drawn.id}`)
  await told({ path: `${pictures}/${drawn.id}` }, 200)
  const response = await told({ path: '/v1/responses', body: { model: 'demo', input: 'Hello' } }, 200)
  await told({ path: `/v1/responses/${response.id}` }, 200)
  await told({ path: `/v1/responses/${response.id}/input_items` }, 200)
  await told({ method: 'DELETE', path: `/v1/responses/${response.id}` }, 200)
  t.notOk(
    'deprecation' in (await running.ask({ path: `${video}/${slow.id}` })).headers,
    'what is not there says nothing'
  )
})
