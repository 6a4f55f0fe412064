// /v1/videos: videos as jobs that clients poll.
import { bytesAnswer, isRefused, jsonAnswer } from '../answer.ts'
import type { Answer } from '../answer.ts'
import type { Call, Endpoint } from '../endpoint.ts'
import { integer, invalid, oneOf } from '../fields.ts'
import { beginJob, jobOf } from '../jobs/begin.ts'
import type { Job, VideoPlan } from '../jobs/job.ts'
import { stillOf, videoFile } from '../jobs/video-file.ts'
import { readVideoRequest } from '../jobs/video-request.ts'
import { jpegOf } from '../media/jpeg.ts'
import { webpOf } from '../media/webp.ts'
import { Refusal } from '../refusal.ts'

/** https://platform.openai.com/docs/api-reference/videos */
export const videoEndpoints: readonly Endpoint[] = [
  { method: 'POST', path: '/v1/videos', answer: create },
  { method: 'GET', path: '/v1/videos', answer: list },
  { method: 'GET', path: '/v1/videos/{id}', answer: (call) => about(call, describe) },
  { method: 'DELETE', path: '/v1/videos/{id}', answer: remove },
  { method: 'GET', path: '/v1/videos/{id}/content', answer: content },
  { method: 'POST', path: '/v1/videos/{id}/remix', answer: create }
]

const day = 86_400

function create(call: Call): Answer {
  const source = call.params['id'] === undefined ? undefined : find(call).id
  const { model, directive, plan } = readVideoRequest(call, source)
  if (isRefused(directive)) return jsonAnswer(null, directive)
  return jsonAnswer(describe(beginJob(call, 'video_', model, directive, plan, { seconds: plan.seconds })), directive)
}

function find(call: Call): Job {
  return jobOf(call, 'video', `Video with id '${call.params['id']}' not found.`, {
    param: 'id',
    code: 'video_not_found'
  })
}

/** An answer about a video, with the directive that the video has for this call. */
function about(call: Call, describes: (job: Job) => unknown): Answer {
  const job = find(call)
  const directive = job.next()
  return jsonAnswer(isRefused(directive) ? null : describes(job), directive)
}

/** The video object. A cancelled video is shown as failed, as this API has no other status for it. */
function describe(job: Job): object {
  const { prompt, seconds, width, height, remixedFrom } = job.plan as VideoPlan
  const { status } = job
  const created = Math.floor(job.createdAt / 1000)
  const { completed, cancelled } = { completed: status === 'completed', cancelled: status === 'cancelled' }
  return {
    id: job.id,
    object: 'video',
    model: job.model,
    status: job.directive.states?.[status] ?? (cancelled ? 'failed' : status),
    progress: job.progress,
    created_at: created,
    completed_at: completed ? Math.floor(job.endedAt! / 1000) : null,
    expires_at: completed ? created + day : null,
    prompt,
    seconds: String(seconds),
    size: `${width}x${height}`,
    remixed_from_video_id: remixedFrom ?? null,
    error: cancelled ? { code: 'cancelled', message: 'The video was cancelled.' } : job.error
  }
}

function remove(call: Call): Answer {
  return about(call, (job) => {
    job.cancel()
    call.state.jobs.drop(job.id)
    return { id: job.id, object: 'video.deleted', deleted: true }
  })
}

function list({ state, query }: Call): Answer {
  const limit = Number(query.get('limit') ?? 20)
  if (!integer(1, 100)(limit)) throw invalid('limit', 'Expected an integer from 1 to 100.')
  const order = query.get('order') ?? 'desc'
  if (!oneOf('asc', 'desc')(order)) throw invalid('order', 'Supported values are: asc, desc.')
  const all = state.jobs.all().filter(({ plan }) => plan.kind === 'video')
  if (order === 'asc') all.reverse()
  const first = query.get('after') === null ? 0 : all.findIndex(({ id }) => id === query.get('after')) + 1
  const page = all.slice(first, first + limit)
  return jsonAnswer({
    object: 'list',
    data: page.map(describe),
    has_more: first + limit < all.length,
    first_id: page[0]?.id ?? null,
    last_id: page.at(-1)?.id ?? null
  })
}

function content(call: Call): Answer {
  const job = find(call)
  const directive = job.next()
  const variant = call.query.get('variant') ?? 'video'
  if (isRefused(directive)) return jsonAnswer(null, directive)
  if (job.status !== 'completed')
    throw new Refusal(404, 'Video is not ready yet, use GET /v1/videos/{video_id} to check status.')
  if (variant === 'video') return { contentType: 'video/mp4', directive, counts: undefined, ...videoFile(job) }
  if (variant === 'thumbnail') return bytesAnswer('image/webp', webpOf(stillOf(job)), directive)
  if (variant === 'spritesheet') return bytesAnswer('image/jpeg', jpegOf(stillOf(job)), directive)
  throw invalid('variant', 'Supported values are: video, thumbnail, spritesheet.')
}
