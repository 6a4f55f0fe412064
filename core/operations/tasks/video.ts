// Videos in the making: how an upstream is asked for them, and how its first answer becomes a task.
import { numberOrDigits } from '../../bodies/fields.ts'
import type { WorkKind } from '../../contract/background.ts'
import { GatewayError } from '../../contract/contract.ts'
import type { Exchange, Stage } from '../../contract/contract.ts'
import type { Metering, UpstreamForm } from '../../contract/operation.ts'
import type { OperationContext } from '../../contract/served.ts'
import { noUsage } from '../../money/usage.ts'
import { readVideo } from '../../protocols/openai/videos.ts'
import type { Work } from '../../store/works.ts'

/** The length in seconds to assume when nobody gives one: the longest that is usual. */
const usualSeconds = 12
/** The longest prompt that is kept with a task, in bytes. */
const longestPrompt = 4096

/** Videos are charged by the second, once they are made. */
export const videoMetering: Metering = {
  outputLimits: [],
  seconds: { members: ['seconds', 'duration'], usual: usualSeconds },
  later: true
}

/** https://platform.openai.com/docs/api-reference/videos */
export const video: WorkKind = {
  name: 'video',
  ask: (work) => ({ method: 'GET', path: pathOf(work) }),
  cancel: (work) => ({ method: 'DELETE', path: pathOf(work) }),
  forget: (work) => ({ method: 'DELETE', path: pathOf(work) }),
  read(body, { details }) {
    const state = readVideo(body)
    if (!state) return undefined
    const { status, progress, error, expires, size } = state
    if (status !== 'succeeded') return { status, progress, error }
    const seconds = state.seconds ?? Number(details['seconds'] ?? usualSeconds)
    return {
      status,
      expires,
      usage: { ...noUsage, second: seconds },
      source: state.seconds === undefined ? 'estimated' : 'upstream',
      details: { seconds, ...(size !== undefined && { size }) }
    }
  }
}

/** How upstreams are asked for a video. */
export const videoForm: UpstreamForm = { protocol: 'openai-videos', method: 'POST', target: () => '/videos' }

/** The path of a task's video at its upstream, below the channel's address. */
export function pathOf({ upstreamId }: Work): string {
  return `/videos/${encodeURIComponent(upstreamId ?? '')}`
}

/** A stage that makes a task from the upstream's first answer, and sends the client `show` of the task instead. */
export function begun(exchange: Exchange, { background }: OperationContext, show: (work: Work) => unknown): Stage {
  return {
    map(message, emit) {
      const state = readVideo(message.json())
      if (!state) throw new GatewayError('upstream_bad_response', 'The upstream did not say which task it has begun.')
      const { fields } = exchange.body
      const seconds = ['seconds', 'duration']
        .map((name) => numberOrDigits(fields, name))
        .find((value) => value !== undefined && !Number.isNaN(value))
      const prompt = fields.size('prompt') <= longestPrompt ? fields.string('prompt') : undefined
      const size = state.size ?? sizeOf(exchange)
      const details = {
        ...(prompt !== undefined && { prompt }),
        ...definedSeconds(state.seconds ?? seconds),
        ...(size !== undefined && { size })
      }
      const { channel } = exchange.attempts.at(-1)!
      const work = background.begin(exchange, {
        kind: 'video',
        status: state.status === 'queued' ? 'queued' : 'in_progress',
        channel,
        upstreamId: state.id,
        details
      })
      emit(message.withData(Buffer.from(JSON.stringify(show(work)))))
    }
  }
}

function definedSeconds(seconds: number | undefined): { seconds?: number } {
  return seconds === undefined ? {} : { seconds }
}

function sizeOf({ body: { fields } }: Exchange): string | undefined {
  const size = fields.size('size') < 16 ? fields.string('size') : undefined
  const [width, height] = [fields.number('width'), fields.number('height')]
  return size ?? (width !== undefined && height !== undefined ? `${width}x${height}` : undefined)
}
