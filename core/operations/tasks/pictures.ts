// Pictures as tasks. The upstream answers only when the pictures are there; the gateway waits for that answer and keeps
// it.
import { LensError, Lens } from '../../bodies/lens.ts'
import { GatewayError } from '../../contract/contract.ts'
import type { Exchange, WholeReply } from '../../contract/contract.ts'
import type { OperationContext, ServedOperation } from '../../contract/served.ts'
import type { Work } from '../../store/works.ts'
import { imageGenerations } from '../images.ts'
import { taskOf } from './kept.ts'
import { shown, taskPaths, taskRecord } from './record.ts'

const path = taskPaths.image

/** A larger result, in bytes, holds the pictures themselves instead of addresses. */
const addressBytes = 64 * 1024

const about = {
  endpoint: 'images',
  protocol: 'openai-images',
  body: 'none'
} as const satisfies Partial<ServedOperation>

const {
  stream: _stream,
  parameters: { stream: _flag, partial_images: _partial, ...parameters } = {},
  ...whole
} = imageGenerations

/** Creates a picture task. */
export const pictureTasks: ServedOperation = {
  ...whole,
  name: 'images.async',
  summary: 'Begins pictures, and answers at once with a task that has them when they are there.',
  paths: [path],
  parameters,
  goesOn: {
    begin({ body: { fields } }) {
      if (fields.has('stream') && fields.flag('stream') !== false) {
        throw new GatewayError(
          'unsupported_parameter',
          'A task has no stream: leave out `stream`, or ask for pictures that are not a task.',
          { param: 'stream' }
        )
      }
      return { kind: 'image', details: {} }
    },
    accepted: (_exchange, work) =>
      shown(202, work, { ...taskRecord(work, null), data: null }, [['location', `${path}/${work.id}`]])
  }
}

/** Reads a picture task. */
export const pictureTask: ServedOperation = {
  ...about,
  name: 'images.async.retrieve',
  summary: 'Says how far pictures are, and has them when they are there.',
  method: 'GET',
  paths: [`${path}/{task_id}`],
  onRequest: async (exchange, context) => withPictures(await taskOf(exchange, context, 'image'), context)
}

/** Cancels a picture task. */
export const pictureTaskCancel: ServedOperation = {
  ...about,
  name: 'images.async.cancel',
  summary:
    'Calls pictures off. Those that are being made are cancelled when the upstream has answered, and cost what they are.',
  method: 'POST',
  paths: [`${path}/{task_id}/cancel`],
  onRequest: async (exchange, context) =>
    withPictures(await context.background.cancel(await taskOf(exchange, context, 'image')), context)
}

/** Deletes a picture task. */
export const pictureTaskDelete: ServedOperation = {
  ...about,
  name: 'images.async.delete',
  summary: 'Deletes pictures; those that are not ready are called off before.',
  method: 'DELETE',
  paths: [`${path}/{task_id}`],
  async onRequest(exchange: Exchange, context: OperationContext) {
    const work = await taskOf(exchange, context, 'image')
    await context.background.remove(work)
    return { status: 200, body: { id: work.id, object: 'image.generation.task.deleted', deleted: true } }
  }
}

/** The task's record with the pictures as the upstream sent them. They are large, so they are spliced in unparsed. */
async function withPictures(work: Work, { services }: OperationContext): Promise<WholeReply> {
  const result = work.status === 'succeeded' ? await services.works.result(work) : undefined
  const data = result && dataOf(result)
  if (!data) return shown(200, work, { ...taskRecord(work, null), data: null })
  const record = JSON.stringify(taskRecord(work, addressIn(data)))
  const body = Buffer.concat([Buffer.from(`${record.slice(0, -1)},"data":`), data, Buffer.from('}')])
  return shown(200, work, body, [['content-type', 'application/json']])
}

function dataOf(result: Buffer): Buffer | undefined {
  try {
    return new Lens(result).slice('data')
  } catch (error) {
    if (error instanceof LensError) return undefined
    throw error
  }
}

/** The address of the first picture; null when the result has no addresses. */
function addressIn(data: Buffer): string | null {
  if (data.length > addressBytes) return null
  const [first] = JSON.parse(data.toString('utf8')) as ({ url?: unknown } | null)[]
  return typeof first?.url === 'string' ? first.url : null
}
