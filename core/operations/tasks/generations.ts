// Videos as the gateway's own tasks: the operations that create, read, cancel and delete them, and download their
// files.
import type { BodyEdit } from '../../bodies/body.ts'
import { numberOrDigits } from '../../bodies/fields.ts'
import type { ParameterSchema, UpstreamForm } from '../../contract/operation.ts'
import type { ServedOperation } from '../../contract/served.ts'
import { begun, video, videoForm, videoMetering } from './video.ts'
import { contentAddress, shown, taskPaths, taskRecord } from './record.ts'
import { contentOf } from './content.ts'
import { taskOf } from './kept.ts'

const path = taskPaths.video

/** What reading, cancelling and deleting a task have in common. */
const about = {
  endpoint: 'videos',
  protocol: 'openai-videos',
  body: 'none'
} as const satisfies Partial<ServedOperation>

/** The parameters of every request for a video. */
export const videoParameters: Readonly<Record<string, ParameterSchema>> = {
  model: { type: 'string', description: 'A model of the model list.' },
  prompt: { type: 'string', description: 'What is to be seen.' },
  seconds: { type: ['integer', 'string'], examples: [4], description: 'How long it is to be.' },
  size: { type: 'string', examples: ['1280x720'], description: 'Width and height in pixels.' }
}

/** Upstreams know one spelling of each member: `seconds` as digits, and `size` as one text. */
const adapted: UpstreamForm = { ...videoForm, adapt }

/** Creates a video task. */
export const videoGenerations: ServedOperation = {
  ...about,
  name: 'videos.generations',
  summary: 'Begins a video, and answers at once with a task that tells how far it is.',
  method: 'POST',
  paths: [path],
  body: 'json',
  model: { in: 'body', name: 'model' },
  upstream: { openai: adapted },
  status: 202,
  begins: video,
  stageAtUpstream: (exchange, context) =>
    begun(exchange, context, (work) => {
      exchange.setHeader('Location', `${path}/${work.id}`)
      exchange.setHeader('Retry-After', 2)
      return taskRecord(work, null)
    }),
  metering: videoMetering,
  required: ['model', 'prompt'],
  parameters: {
    ...videoParameters,
    duration: { type: ['integer', 'string'], description: 'The same as `seconds`.' },
    width: { type: 'integer', description: 'Together with `height`, the same as `size`.' },
    height: { type: 'integer', description: 'Together with `width`, the same as `size`.' },
    image: {
      type: 'string',
      description: 'The address of the first frame, or the frame as a data URL, where the model takes one.'
    }
  }
}

/** Reads a video task. */
export const videoTask: ServedOperation = {
  ...about,
  name: 'videos.generations.retrieve',
  summary: 'Says how far a video is, and where its file is when it is there.',
  method: 'GET',
  paths: [`${path}/{task_id}`],
  async onRequest(exchange, context) {
    const work = await context.background.refresh(await taskOf(exchange, context, 'video'))
    return shown(200, work, taskRecord(work, contentAddress(exchange, context, work)))
  }
}

/** Cancels a video task. */
export const videoTaskCancel: ServedOperation = {
  ...about,
  name: 'videos.generations.cancel',
  summary:
    'Calls a video off. It is cancelled when its upstream stops; until then it goes on, and costs what it comes to.',
  method: 'POST',
  paths: [`${path}/{task_id}/cancel`],
  async onRequest(exchange, context) {
    const work = await context.background.cancel(await taskOf(exchange, context, 'video'))
    return shown(200, work, taskRecord(work, contentAddress(exchange, context, work)))
  }
}

/** Deletes a video task. */
export const videoTaskDelete: ServedOperation = {
  ...about,
  name: 'videos.generations.delete',
  summary:
    'Deletes a video with its file; one that is not ready is called off before, and stays where that cannot be done.',
  method: 'DELETE',
  paths: [`${path}/{task_id}`],
  async onRequest(exchange, context) {
    const work = await taskOf(exchange, context, 'video')
    await context.background.remove(work)
    return { status: 200, body: { id: work.id, object: 'video.generation.task.deleted', deleted: true } }
  }
}

/** Downloads the file of a video task. */
export const videoTaskContent: ServedOperation = {
  ...contentOf,
  name: 'videos.generations.content',
  paths: [`${path}/{task_id}/content`]
}

function adapt(body: BodyEdit): void {
  const { fields } = body.original
  const seconds = numberOrDigits(fields, 'seconds') ?? numberOrDigits(fields, 'duration')
  if (seconds !== undefined && !Number.isNaN(seconds)) body.set('seconds', String(seconds))
  const [width, height] = [fields.number('width'), fields.number('height')]
  if (!fields.has('size') && width !== undefined && height !== undefined) body.set('size', `${width}x${height}`)
}
