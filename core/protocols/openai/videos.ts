// Videos: work that goes on after its request was answered, and what upstreams say of it.
import { asObject, asText } from '../object.ts'
import { openaiChat } from '../openai-chat/protocol.ts'
import { plainText } from '../plain-text.ts'
import type { Protocol } from '../protocol.ts'
import { withoutStream } from '../whole.ts'

/** https://platform.openai.com/docs/api-reference/videos */
export const openaiVideos: Protocol = withoutStream(openaiChat, {
  isAnswer: ({ lens }) => lens !== undefined && (lens.type('id') === 'string' || lens.type('task_id') === 'string'),
  readUsage: () => undefined,
  text: plainText({ prompt: ['prompt'] })
})

/** Files of videos: of an answer that is none, what chat makes of errors. */
export const openaiVideoFile: Protocol = withoutStream(openaiChat, {
  isAnswer: () => true,
  readUsage: () => undefined,
  text: plainText({ prompt: [] })
})

/** How far a video is, as its upstream says. */
export interface VideoState {
  id: string
  status: 'queued' | 'in_progress' | 'succeeded' | 'failed' | 'cancelled'
  /** From 0 to 100. */
  progress: number | undefined
  /** Of the file. */
  seconds: number | undefined
  size: string | undefined
  error: { code: string; message: string } | undefined
  /** Unix milliseconds. */
  expires: number | undefined
}

/** The words of vendors who keep the shape. What is not among them is taken to go on. */
const words: Readonly<Record<string, VideoState['status']>> = {
  not_start: 'queued',
  submitted: 'queued',
  queued: 'queued',
  queueing: 'queued',
  pending: 'queued',
  created: 'queued',
  throttled: 'queued',
  success: 'succeeded',
  succeeded: 'succeeded',
  succeed: 'succeeded',
  completed: 'succeeded',
  done: 'succeeded',
  failed: 'failed',
  failure: 'failed',
  fail: 'failed',
  error: 'failed',
  expired: 'failed',
  timeout: 'failed',
  cancelled: 'cancelled',
  canceled: 'cancelled'
}

/** `1280x720`, `720p`, `16:9`. */
const sizes = /^[\w:*]{1,16}$/

/** Longest texts of an upstream that are kept. */
const longestCode = 64
const longestMessage = 500

/** Reads what an upstream says of a video; undefined when it says nothing of one. */
export function readVideo(body: unknown): VideoState | undefined {
  const video = asObject(body)
  const id = asText(video?.['id']) || asText(video?.['task_id'])
  if (!video || id === '' || typeof video['status'] !== 'string') return undefined
  const usage = asObject(video['usage'])
  const error = asObject(video['error'])
  return {
    id,
    status: words[video['status'].toLowerCase()] ?? 'in_progress',
    progress: countOf(video['progress']),
    seconds: countOf(usage?.['seconds']) ?? countOf(video['seconds']) ?? countOf(video['duration']),
    size: sizes.test(asText(video['size'])) ? asText(video['size']) : undefined,
    error: error && {
      code: asText(error['code']).slice(0, longestCode) || 'task_failed',
      message: asText(error['message']).slice(0, longestMessage) || 'The task failed.'
    },
    expires: countOf(video['expires_at']) === undefined ? undefined : countOf(video['expires_at'])! * 1000
  }
}

/** A count, which many write in digits, and which is begun when it has a fraction. */
function countOf(value: unknown): number | undefined {
  const count =
    typeof value === 'string' && /^\d{1,12}(\.\d{1,6})?%?$/.test(value) ? Number(value.replace('%', '')) : value
  return typeof count === 'number' && count >= 0 && count <= Number.MAX_SAFE_INTEGER ? Math.ceil(count) : undefined
}
