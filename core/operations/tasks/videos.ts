// OpenAI's video operations, over the same tasks as the gateway's own.
import { GatewayError } from '../../contract/contract.ts'
import type { ServedOperation } from '../../contract/served.ts'
import { contentOf } from './content.ts'
import { videoParameters } from './generations.ts'
import { ownerOf } from '../../contract/owner.ts'
import { taskOf } from './kept.ts'
import { shown, videoRecord } from './record.ts'
import { begun, video, videoForm, videoMetering } from './video.ts'

const about = {
  endpoint: 'videos',
  protocol: 'openai-videos',
  body: 'none'
} as const satisfies Partial<ServedOperation>

/** https://platform.openai.com/docs/api-reference/videos/create */
export const videoCreate: ServedOperation = {
  ...about,
  name: 'videos',
  summary: 'Begins a video, and answers at once: it is made while its client asks how far it is.',
  method: 'POST',
  paths: ['/v1/videos'],
  body: 'either',
  model: { in: 'body', name: 'model' },
  upstream: { openai: videoForm },
  begins: video,
  stageAtUpstream: (exchange, context) => begun(exchange, context, videoRecord),
  metering: videoMetering,
  required: ['model', 'prompt'],
  parameters: {
    ...videoParameters,
    input_reference: { type: 'string', format: 'binary', description: 'A picture that the video begins with.' }
  }
}

/** https://platform.openai.com/docs/api-reference/videos/list */
export const videoList: ServedOperation = {
  ...about,
  name: 'videos.list',
  summary: "Lists the videos of the key's project, a page at a time.",
  method: 'GET',
  paths: ['/v1/videos'],
  parameters: {
    after: { type: 'string', description: 'The page follows this video.' },
    limit: { type: 'integer', minimum: 1, maximum: 100, default: 20, description: 'Videos of a page.' },
    order: { type: 'string', enum: ['asc', 'desc'], default: 'desc', description: 'The oldest first, or the newest.' }
  },
  async onRequest(exchange, { services }) {
    const query = new URLSearchParams(exchange.request.query)
    const limit = query.get('limit') ?? '20'
    const order = query.get('order') ?? 'desc'
    if (!/^\d{1,3}$/.test(limit) || Number(limit) < 1 || Number(limit) > 100)
      throw new GatewayError('invalid_field', 'The parameter `limit` must be a whole number from 1 to 100.', {
        param: 'limit'
      })
    if (order !== 'asc' && order !== 'desc')
      throw new GatewayError('invalid_field', 'The parameter `order` must be `asc` or `desc`.', { param: 'order' })
    const { page, more } = await services.works.list({
      ...ownerOf(exchange),
      kind: 'video',
      after: query.get('after') ?? undefined,
      limit: Number(limit),
      newestFirst: order === 'desc'
    })
    return {
      status: 200,
      body: {
        object: 'list',
        data: page.map(videoRecord),
        first_id: page[0]?.id ?? null,
        last_id: page.at(-1)?.id ?? null,
        has_more: more
      }
    }
  }
}

/** https://platform.openai.com/docs/api-reference/videos/retrieve */
export const videoRetrieve: ServedOperation = {
  ...about,
  name: 'videos.retrieve',
  summary: 'Says how far a video is.',
  method: 'GET',
  paths: ['/v1/videos/{task_id}'],
  async onRequest(exchange, context) {
    const work = await context.background.refresh(await taskOf(exchange, context, 'video'))
    return shown(200, work, videoRecord(work))
  }
}

/** Cancels a video. OpenAI has no such operation. */
export const videoCancel: ServedOperation = {
  ...about,
  name: 'videos.cancel',
  summary:
    'Calls a video off. It is cancelled when its upstream stops; until then it goes on, and costs what it comes to.',
  method: 'POST',
  paths: ['/v1/videos/{task_id}/cancel'],
  async onRequest(exchange, context) {
    const work = await context.background.cancel(await taskOf(exchange, context, 'video'))
    return shown(200, work, videoRecord(work))
  }
}

/** https://platform.openai.com/docs/api-reference/videos/delete */
export const videoDelete: ServedOperation = {
  ...about,
  name: 'videos.delete',
  summary:
    'Deletes a video with its file; one that is not ready is called off before, and stays where that cannot be done.',
  method: 'DELETE',
  paths: ['/v1/videos/{task_id}'],
  async onRequest(exchange, context) {
    const work = await taskOf(exchange, context, 'video')
    await context.background.remove(work)
    return { status: 200, body: { id: work.id, object: 'video.deleted', deleted: true } }
  }
}

/** https://platform.openai.com/docs/api-reference/videos/content */
export const videoContent: ServedOperation = {
  ...contentOf,
  name: 'videos.content',
  paths: ['/v1/videos/{task_id}/content']
}
