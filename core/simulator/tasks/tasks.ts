// Jobs as most vendors have them: a task is polled until its record has an address. There is no standard, so a
// directive can set the words for the statuses.
import { isRefused, jsonAnswer } from '../answer.ts'
import type { Answer } from '../answer.ts'
import type { Call, Endpoint, Protocol } from '../endpoint.ts'
import { beginJob, jobOf } from '../jobs/begin.ts'
import type { Job, JobStatus } from '../jobs/job.ts'
import { readVideoRequest } from '../jobs/video-request.ts'
import { imageJob } from '../openai/images.ts'
import { openai } from '../openai/openai.ts'

const framesPerSecond = 24
const day = 86_400

const videoPath = '/v1/video/generations'
const imagePath = '/v1/images/generations/async'

/** Video and image tasks: POST creates, GET reads, DELETE or a POST to `cancel` cancels. */
export const tasks: Protocol = {
  ...openai,
  endpoints: [...endpoints(videoPath, 'video', beginVideo), ...endpoints(imagePath, 'image', beginImages)],
  claims: (path) => path.startsWith(videoPath) || path.startsWith(imagePath)
}

function endpoints(path: string, kind: Job['plan']['kind'], begin: (call: Call) => Answer): Endpoint[] {
  const cancel = (call: Call): Answer => about(call, kind, (job) => job.cancel())
  return [
    { method: 'POST', path, answer: begin },
    { method: 'GET', path: `${path}/{id}`, answer: (call) => about(call, kind) },
    { method: 'DELETE', path: `${path}/{id}`, answer: cancel },
    { method: 'POST', path: `${path}/{id}/cancel`, answer: cancel }
  ]
}

function beginVideo(call: Call): Answer {
  const { model, directive, plan } = readVideoRequest(call)
  if (isRefused(directive)) return jsonAnswer(null, directive)
  return jsonAnswer(
    describe(beginJob(call, 'task_', model, directive, plan, { seconds: plan.seconds }), call.origin),
    directive
  )
}

function beginImages(call: Call): Answer {
  const { model, directive, plan, counts } = imageJob(call)
  if (isRefused(directive)) return jsonAnswer(null, directive)
  return jsonAnswer(describe(beginJob(call, 'task_', model, directive, plan, counts), call.origin), directive)
}

function about(call: Call, kind: Job['plan']['kind'], first?: (job: Job) => void): Answer {
  const job = jobOf(call, kind, 'Task not found', { code: 'task_not_found' })
  const directive = job.next()
  if (!isRefused(directive)) first?.(job)
  return jsonAnswer(describe(job, call.origin), directive)
}

const words: Readonly<Record<JobStatus, string>> = {
  queued: 'queued',
  in_progress: 'in_progress',
  completed: 'succeeded',
  failed: 'failed',
  cancelled: 'cancelled'
}

function describe(job: Job, origin: string): object {
  const { id, model, plan, directive, status, progress, endedAt, error } = job
  const created = Math.floor(job.createdAt / 1000)
  const done = status === 'completed'
  const common = {
    id,
    task_id: id,
    object: `${plan.kind}.generation.task`,
    model,
    progress,
    status: directive.states?.[status] ?? words[status],
    created_at: created,
    updated_at: Math.floor((endedAt ?? Date.now()) / 1000),
    completed_at: endedAt === undefined ? null : Math.floor(endedAt / 1000),
    expires_at: done ? created + day : null,
    error
  }
  if (plan.kind === 'image')
    return {
      ...common,
      url: (done && plan.data[0]?.url) || null,
      data: done ? plan.data : null,
      metadata: {},
      usage: done ? plan.usage : null
    }
  const { seconds, width, height } = plan
  const usage = directive.usage === undefined ? { seconds } : directive.usage
  return {
    ...common,
    url: done ? `${origin}/files/${id}.mp4` : null,
    format: 'mp4',
    metadata: { duration: seconds, fps: framesPerSecond, width, height },
    usage: done ? usage : null
  }
}
