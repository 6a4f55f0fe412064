// Tasks as clients see them: as records of our own, and as videos of OpenAI's.
import type { Exchange, WholeReply } from '../../contract/contract.ts'
import type { OperationContext } from '../../contract/served.ts'
import { isOpen } from '../../store/works.ts'
import type { Work } from '../../store/works.ts'

/** Seconds after which it makes sense to ask again. */
const askAgain = '2'

/** Where the tasks of each kind are found. */
export const taskPaths = { video: '/v1/video/generations', image: '/v1/images/generations/async' } as const

/** A kind of task that has records. */
export type TaskKind = keyof typeof taskPaths

/** A task in its own words. */
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

/** A task as a video of OpenAI's, which has fewer words for its state, and no address. */
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
    seconds: details['seconds'] === undefined ? null : String(details['seconds']),
    remixed_from_video_id: null,
    error:
      error ??
      (failed
        ? { code: status, message: status === 'cancelled' ? 'The video was cancelled.' : 'The video took too long.' }
        : null)
  }
}

/** The reply that shows a task; while it goes on, with when to ask again. */
export function shown(status: number, work: Work, body: unknown, headers: WholeReply['headers'] = []): WholeReply {
  return { status, headers: isOpen(work) ? [...headers, ['retry-after', askAgain]] : headers, body }
}

/** Where the file of a task is, for those with a key. */
export function contentAddress(exchange: Exchange, { background }: OperationContext, { id, kind }: Work): string {
  return background.address(exchange, `${taskPaths[kind as TaskKind]}/${id}/content`)
}

function seconds(ms: number): number {
  return Math.floor(ms / 1000)
}

function metadataOf({ seconds: duration, size }: Work['details']): Record<string, unknown> {
  const [width, height] = /^(\d{1,5})x(\d{1,5})$/.exec(String(size))?.slice(1).map(Number) ?? []
  return { ...(duration !== undefined && { duration }), ...(width !== undefined && { width, height }) }
}

/** What was charged for, in the words of those who pay. */
function usageOf(usage: NonNullable<Work['usage']>): Record<string, number> {
  const { second, image, input, output, image_input = 0, image_output = 0 } = usage
  const tokens = { input_tokens: input + image_input, output_tokens: output + image_output }
  return {
    ...(second !== undefined && { seconds: second }),
    ...(image !== undefined && { images: image }),
    ...(tokens.input_tokens + tokens.output_tokens > 0 && tokens)
  }
}
