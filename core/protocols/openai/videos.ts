// The protocol of OpenAI's videos, and the reading of what upstreams say about one.
import { asObject, asText } from '../object.ts'
import { openaiChat } from '../openai-chat/protocol.ts'
import { plainText } from '../text/plain-text.ts'
import type { Protocol } from '../protocol.ts'
import { withoutStream } from '../whole.ts'

/** https://platform.openai.com/docs/api-reference/videos */
export const openaiVideos: Protocol = withoutStream(openaiChat, {
  isAnswer: ({ lens }) => lens !== undefined && (lens.type('id') === 'string' || lens.type('task_id') === 'string'),
  readUsage: () => undefined,
  text: plainText({ prompt: ['prompt'] })
})

/** The protocol of downloading a video's file. Errors are as in chat completions. */
export const openaiVideoFile: Protocol = withoutStream(openaiChat, {
  isAnswer: () => true,
  readUsage: () => undefined,
  text: plainText({ prompt: [] })
})

/** The state of a video at its upstream. */
export interface VideoState {
  id: string
  status: 'queued' | 'in_progress' | 'succeeded' | 'failed' | 'cancelled'
  /** In percent, from 0 to 100. */
  progress: number | undefined
  /** The length of the video. */
  seconds: number | undefined
  size: string | undefined
  error: { code: string; message: string } | undefined
  /** When the file expires, in Unix milliseconds. */
  expires: number | undefined
}

/** The statuses of vendors with this interface. Unknown ones count as `in_progress`. */
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

/** A size such as `1280x720`, `720p` or `16:9`. */
const sizes = /^[\w:*]{1,16}$/

/** The longest code and message of an error that are kept, in characters. */
const longestCode = 64
const longestMessage = 500

/** Reads the state of a video; undefined when the body has none. */
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

/** A number, which many upstreams write as a string; a fraction is rounded up. */
function countOf(value: unknown): number | undefined {
  const count =
    typeof value === 'string' && /^\d{1,12}(\.\d{1,6})?%?$/.test(value) ? Number(value.replace('%', '')) : value
  return typeof count === 'number' && count >= 0 && count <= Number.MAX_SAFE_INTEGER ? Math.ceil(count) : undefined
}
