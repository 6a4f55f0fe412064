// Tasks as clients see them: as the gateway's own records, and as OpenAI's videos.
import type { Exchange, WholeReply } from '../../contract/contract.ts'
import type { OperationContext } from '../../contract/served.ts'
import { asText } from '../../protocols/object.ts'
import { isOpen } from '../../store/works.ts'
import type { Work } from '../../store/works.ts'

/** The `Retry-After` of a task that goes on, in seconds. */
const askAgain = '2'

/** The path of each kind of task. */
export const taskPaths = { video: '/v1/video/generations', image: '/v1/images/generations/async' } as const

/** A kind of task with a record of its own. */
export type TaskKind = keyof typeof taskPaths

/** A task as the gateway's own record. `url`: where its result is; shown only once the task has succeeded. */
export function taskRecord(work: Work, url: string | null): Record<string, unknown> {
  const { id, kind, model, status, progress, details, usage, error } = work
  return {
    id,
    task_id: id,
    object: `${kind}.generation.task`,
    model,
    status,
    progress,
    created_at: seconds(work.created),
    updated_at: seconds(work.updated),
    completed_at: work.ended === null ? null : seconds(work.ended),
    expires_at: work.expires === null ? null : seconds(work.expires),
    url: status === 'succeeded' ? url : null,
    ...(kind === 'video' ? { format: 'mp4', metadata: metadataOf(details) } : { metadata: {} }),
    usage: usage && usageOf(usage),
    error
  }
}

/** A task as OpenAI's video object, which has fewer states and no address. */
export function videoRecord(work: Work): Record<string, unknown> {
  const { id, model, status, progress, details, error } = work
  const failed = status === 'failed' || status === 'cancelled' || status === 'expired'
  return {
    id,
    object: 'video',
    model,
    status: status === 'succeeded' ? 'completed' : failed ? 'failed' : status,
    progress,
    created_at: seconds(work.created),
    completed_at: status === 'succeeded' ? seconds(work.ended!) : null,
    expires_at: status === 'succeeded' ? seconds(work.expires!) : null,
    prompt: details['prompt'] ?? null,
    size: details['size'] ?? null,
    seconds: typeof details['seconds'] === 'number' ? String(details['seconds']) : null,
    remixed_from_video_id: null,
    error:
      error ??
      (failed
        ? { code: status, message: status === 'cancelled' ? 'The video was cancelled.' : 'The video took too long.' }
        : null)
  }
}

/** The reply that shows a task. It has a `Retry-After` while the task goes on. */
export function shown(status: number, work: Work, body: unknown, headers: WholeReply['headers'] = []): WholeReply {
  return { status, headers: isOpen(work) ? [...headers, ['retry-after', askAgain]] : headers, body }
}

/** The public address of a task's file. Downloading it needs a key. */
export function contentAddress(exchange: Exchange, { background }: OperationContext, { id, kind }: Work): string {
  return background.address(exchange, `${taskPaths[kind as TaskKind]}/${id}/content`)
}

function seconds(ms: number): number {
  return Math.floor(ms / 1000)
}

function metadataOf({ seconds: duration, size }: Work['details']): Record<string, unknown> {
  const [width, height] = /^(\d{1,5})x(\d{1,5})$/.exec(asText(size))?.slice(1).map(Number) ?? []
  return { ...(duration !== undefined && { duration }), ...(width !== undefined && { width, height }) }
}

/** What the task was charged for, as a client sees it. */
function usageOf(usage: NonNullable<Work['usage']>): Record<string, number> {
  const { second, image, input, output, image_input = 0, image_output = 0 } = usage
  const tokens = { input_tokens: input + image_input, output_tokens: output + image_output }
  return {
    ...(second !== undefined && { seconds: second }),
    ...(image !== undefined && { images: image }),
    ...(tokens.input_tokens + tokens.output_tokens > 0 && tokens)
  }
}
