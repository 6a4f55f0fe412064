// The table of what becomes of each feature between a client's protocol and a channel's.
import { answerFeatures, requestFeatures } from '../canonical/features.ts'
import type { AnswerFeature, RequestFeature, Treatment } from '../canonical/features.ts'
import { codecs, upstreamCodecs } from './codecs.ts'
import type { CodecName, UpstreamCodecName } from './codecs.ts'

/** What becomes of one feature in one pair of protocols. */
export interface Fate {
  /** A description of the feature. */
  meaning: string
  fate: 'carried' | 'adapted' | 'dropped' | 'refused'
  /** How it is adapted. */
  how?: string
  /** The client's member that asks for it; absent for features of answers. */
  member?: string
}

/** A client's protocol and a channel's. Features that neither can express are left out. */
export interface Pair {
  client: CodecName
  channel: UpstreamCodecName
  /** Whether both are the same protocol, so that everything passes unchanged. The other members are then empty. */
  passed: boolean
  request: Partial<Record<RequestFeature, Fate>>
  answer: Partial<Record<AnswerFeature, Fate>>
}

const clients = Object.keys(codecs) as CodecName[]
const channels = Object.keys(upstreamCodecs) as UpstreamCodecName[]

/** All pairs, for the admin API. Computed on each call. */
export function capabilityMatrix(): Pair[] {
  return clients.flatMap((client) => channels.map((channel) => pairOf(client, channel)))
}

function pairOf(client: CodecName, channel: UpstreamCodecName): Pair {
  if (client === channel) return { client, channel, passed: true, request: {}, answer: {} }
  const { asks, shows } = codecs[client].capabilities
  const { takes, gives } = upstreamCodecs[channel].capabilities
  const request: Pair['request'] = {}
  for (const [feature, member] of Object.entries(asks) as [RequestFeature, string][]) {
    request[feature] = { meaning: requestFeatures[feature], ...fateOf(takes[feature]), member }
  }
  const answer: Pair['answer'] = {}
  for (const feature of gives) answer[feature] = { meaning: answerFeatures[feature], ...fateOf(shows[feature]) }
  return { client, channel, passed: false, request, answer }
}

function fateOf(treatment: Treatment): Pick<Fate, 'fate' | 'how'> {
  return typeof treatment === 'string' ? { fate: treatment } : { fate: 'adapted', how: treatment.adapted }
}

/**
 * The matrix as two Markdown tables. What becomes of a feature depends on one protocol only, so each column is a
 * protocol and not a pair.
 */
export function matrixTables(): string {
  const requests = Object.entries(requestFeatures).map(([feature, meaning]) => {
    const asking = clients.filter((name) => codecs[name].capabilities.asks[feature as RequestFeature] !== undefined)
    return row([
      `\`${feature}\`: ${meaning}`,
      asking.join(', '),
      ...channels.map((name) => shown(upstreamCodecs[name].capabilities.takes[feature as RequestFeature]))
    ])
  })
  const answers = Object.entries(answerFeatures).map(([feature, meaning]) => {
    const giving = channels.filter((name) => upstreamCodecs[name].capabilities.gives.includes(feature as AnswerFeature))
    return row([
      `\`${feature}\`: ${meaning}`,
      giving.join(', '),
      ...clients.map((name) => shown(codecs[name].capabilities.shows[feature as AnswerFeature]))
    ])
  })
  return [
    row(['In requests', 'Clients that can ask', ...channels.map((name) => `to ${name}`)]),
    rule(channels.length + 2),
    ...requests,
    '',
    row(['In answers', 'Channels that give', ...clients.map((name) => `for ${name}`)]),
    rule(clients.length + 2),
    ...answers,
    ''
  ].join('\n')
}

function rule(columns: number): string {
  return `|${'---|'.repeat(columns)}`
}

function row(cells: readonly string[]): string {
  return `| ${cells.join(' | ')} |`
}

function shown(treatment: Treatment): string {
  if (typeof treatment !== 'string') return `adapted: ${treatment.adapted}`
  return treatment === 'refused' ? '**refused**' : treatment
}
