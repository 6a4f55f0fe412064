// The operation that downloads a video's file from the upstream that has it.
import { channelTo } from '../../catalogue/account.ts'
import { GatewayError } from '../../contract/contract.ts'
import type { ServedOperation } from '../../contract/served.ts'
import { slot } from '../../contract/slots.ts'
import type { Work } from '../../store/works.ts'
import { taskOf } from './kept.ts'
import { pathOf } from './video.ts'

/** The task whose file the request asks for. */
const asked = slot('tasks/asked').of<Work>()

const variants: ReadonlySet<string> = new Set(['video', 'thumbnail', 'spritesheet'])

/** What the download has in common at the gateway's own path and at OpenAI's. */
export const contentOf = {
  endpoint: 'videos',
  summary: 'The file of a video that is ready, or a picture of it.',
  method: 'GET',
  protocol: 'openai-video-file',
  body: 'none',
  answers: ['bytes'],
  media: /^\s*(?:(?:video|image)\/|(?:application|binary)\/octet-stream\b)/i,
  upstream: {
    openai: {
      protocol: 'openai-video-file',
      method: 'GET',
      target: ({ exchange, query }) => `${pathOf(exchange.find(asked)!)}/content${variantOf(query)}`
    }
  },
  async onCandidates(exchange, candidates, context) {
    const work = await taskOf(exchange, context, 'video')
    variantOf(exchange.request.query)
    const latest = await context.background.refresh(work)
    if (latest.status !== 'succeeded') throw notReady(latest)
    exchange.set(asked, latest)
    const holder = channelTo(latest.account, latest.channel ?? '', context.catalogue.channels)
    candidates.bind((channel) => channel === holder)
  },
  parameters: {
    variant: { type: 'string', enum: [...variants], default: 'video', description: 'The video, or a picture of it.' }
  }
} as const satisfies Partial<ServedOperation>

/**
 * The query that asks the upstream for the variant; empty without one.
 * @throws GatewayError `invalid_field` for an unknown variant
 */
function variantOf(query: string): string {
  const variant = query === '' ? null : new URLSearchParams(query).get('variant')
  if (variant === null) return ''
  if (!variants.has(variant))
    throw new GatewayError('invalid_field', `The parameter \`variant\` must be one of ${[...variants].join(', ')}.`, {
      param: 'variant'
    })
  return `?variant=${variant}`
}

function notReady({ status }: Work): GatewayError {
  const goesOn = status === 'queued' || status === 'in_progress'
  const message = goesOn
    ? 'The video is not ready yet: ask how far it is, and come back.'
    : `There is no file of this video: it is ${status}.`
  return new GatewayError('invalid_request', message, {
    status: 409,
    shownCode: 'task_not_ready',
    ...(goesOn && { retryAfterMs: 2000 })
  })
}
