// The section `channels` of gateway.yaml: its shape, and how it becomes the channels of the core.
import { channelEndpoints } from '../../core/catalogue/endpoints.ts'
import { credentialHeader } from '../../core/protocols/credentials.ts'
import { isMap } from '../../core/options/schema-check.ts'
import { costShape } from '../prices/costs.ts'
import { ConnectingReader, connectingShape } from './connecting.ts'
import { CredentialReader, credentialShape } from './credentials.ts'
import { channelLimitsShape, credentialsShape, readChannelLimits, readCredentials } from './several.ts'
import { faultOf, notAnAddress, shownAddress } from '../addresses.ts'
import { modelNames, names } from '../names.ts'
import { presetNames } from '../presets/presets.ts'
import { traitsOf, traitsShape } from './traits.ts'
import type { ConnectingSources } from './connecting.ts'
import type { Channel } from '../../core/catalogue/catalogue.ts'
import type { OptionSchema, OptionValue } from '../../core/options/schema.ts'
import type { Report } from '../report.ts'

const timeout = {
  type: 'string',
  format: 'duration',
  atLeast: '1ms',
  atMost: '24d'
} as const satisfies Partial<OptionSchema>

export const channelsShape = {
  type: 'object',
  description: 'Upstreams by name.',
  propertyNames: names,
  additionalProperties: {
    type: 'object',
    description: 'One way to an upstream.',
    required: ['protocol', 'models'],
    properties: {
      preset: {
        type: 'string',
        enum: presetNames,
        description: 'A well-known upstream: what is known of it stands for what is not said here.'
      },
      protocol: {
        type: 'string',
        enum: ['openai', 'anthropic', 'gemini', 'bedrock', 'simulator'],
        description: 'What the upstream speaks; simulator is a local stand-in that needs no network.'
      },
      dialect: {
        type: 'string',
        enum: ['invoke', 'predict'],
        description:
          "How a platform wants a vendor's protocol: `invoke` by InvokeModel of Bedrock, `predict` as predictions, which of Gemini's protocol only vectors are."
      },
      simulates: {
        type: 'string',
        enum: ['openai', 'anthropic', 'gemini'],
        examples: ['anthropic'],
        description: 'What a simulator speaks; openai unless said otherwise.'
      },
      base_url: {
        type: 'string',
        examples: ['https://api.openai.com/v1'],
        description: 'Address with the version; a query is kept on every call. Required except for a simulator.'
      },
      path: {
        type: 'string',
        examples: ['/deployments/{model}'],
        pattern: '^(/[A-Za-z0-9._~{}-]+)+$',
        patternErrorMessage: 'a path like /deployments/{model}, without a slash at its end',
        description:
          "Stands between the address and what each call adds to it; `{model}` is the upstream's name of the model."
      },
      query: {
        type: 'object',
        secret: true,
        default: {},
        examples: [{ 'api-version': '2024-10-21' }],
        additionalProperties: { type: 'string', description: 'The value.' },
        description: 'Parameters of every call, beside those of base_url, which count first.'
      },
      credential_header: {
        type: 'string',
        examples: ['api-key'],
        pattern: '^[A-Za-z0-9-]{1,64}$',
        patternErrorMessage: 'a header name',
        description: 'The header that the credential travels in as it is, where that is not the one of the protocol.'
      },
      credential: credentialShape,
      credentials: credentialsShape,
      endpoints: {
        type: 'array',
        minItems: 1,
        items: { type: 'string', enum: channelEndpoints, description: 'An endpoint.' },
        description:
          "What the upstream speaks natively; `chat` unless said otherwise, and everything for a simulator. `responses` is OpenAI's newer protocol, in which upstreams keep responses."
      },
      private: {
        type: 'boolean',
        default: false,
        description: 'Allows private and loopback addresses, which are refused otherwise, here and when connecting.'
      },
      enabled: {
        type: 'boolean',
        default: true,
        description: 'false: no request of a client is sent there.'
      },
      drain: {
        type: 'boolean',
        default: false,
        description:
          'true: nothing new is sent there. What is under way ends, and requests that refer to what its account keeps (responses that go on, tasks, videos, files) still reach it.'
      },
      models: {
        type: 'object',
        propertyNames: modelNames,
        examples: [{ 'gpt-5': 'gpt-5-2026-08-01' }],
        additionalProperties: { type: 'string', minLength: 1, description: "The upstream's name for it." },
        description: "Models it serves: public name: upstream's name."
      },
      cost: costShape,
      weight: {
        type: 'integer',
        minimum: 0,
        maximum: 1_000_000,
        default: 1,
        description: 'Share within one priority; 0 only when nothing else is left.'
      },
      priority: { type: 'integer', minimum: 0, maximum: 1_000_000, default: 0, description: 'Lower is tried first.' },
      limits: channelLimitsShape,
      timeouts: {
        type: 'object',
        description: 'How long to wait for the upstream.',
        default: {},
        properties: {
          connect: { ...timeout, default: '5s', description: 'For the connection, TLS included.' },
          first_byte: {
            ...timeout,
            default: '60s',
            description: 'For the beginning of an answer that is streamed; then another channel is asked.'
          },
          first_byte_whole: {
            ...timeout,
            description:
              'For the beginning of an answer that is not streamed; then another channel is asked, once. As long as the model may take for `max_output_tokens` at 20 a second, after `first_byte`, unless said otherwise, and half of `total` for a model without that. What is asked for once only (pictures, videos, speech, work in the background) has `total` alone, streamed or not.'
          },
          idle: {
            ...timeout,
            default: '60s',
            description: 'Between two events of an answer that is streamed; comments are none.'
          },
          total: {
            ...timeout,
            default: '600s',
            description: 'For all of the answer.'
          }
        }
      },
      headers: {
        type: 'object',
        secret: true,
        default: {},
        examples: [{ 'x-team': 'platform' }],
        propertyNames: { pattern: "^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}$", patternErrorMessage: 'a header name' },
        additionalProperties: {
          type: 'string',
          secret: true,
          description: 'The value.',
          pattern: '^[\\t\\x20-\\x7e]*$',
          patternErrorMessage: 'one line of ASCII text'
        },
        description: 'Added to every request to this channel.'
      },
      usage: {
        type: 'object',
        description: 'How the upstream tells what it counted.',
        default: {},
        properties: {
          stream_options: {
            type: 'boolean',
            default: true,
            description:
              'false for an upstream that does not know `stream_options`: the gateway does not ask it for the usage of streams, which is estimated unless it is told all the same. ' +
              'One that refuses to be asked is found out by its first refusal; this saves that one, after each start and reload.'
          }
        }
      },
      traits: {
        type: 'object',
        default: {},
        examples: [{ output_limit: 'max_tokens' }],
        description: 'What is special about the models behind it, for requests that are translated to its protocol.',
        properties: traitsShape
      },
      reuse: {
        type: 'boolean',
        default: true,
        description:
          'false gives every request a connection of its own, so that nothing an upstream sends late can meet another request.'
      },
      ...connectingShape
    }
  }
} as const satisfies OptionSchema

type ChannelEntry = OptionValue<typeof channelsShape.additionalProperties>

/** Headers that only the gateway sets, for the connection or the body. */
const ownHeaders = new Set([
  'host',
  'content-length',
  'content-type',
  'content-encoding',
  'accept-encoding',
  'transfer-encoding',
  'connection',
  'keep-alive',
  'upgrade',
  'te',
  'trailer',
  'expect',
  'proxy-authorization',
  'proxy-connection'
])

/** What reading channels needs. */
export interface ChannelSources extends ConnectingSources {
  /** The address of the simulator, for channels with `protocol: simulator`. */
  simulatorUrl: URL
}

/** Reads the channels. A faulty one becomes undefined, so that its name is still known. */
export function readChannels(
  entries: Readonly<Record<string, ChannelEntry>>,
  sources: ChannelSources,
  report: Report
): Map<string, Channel | undefined> {
  return new Map(Object.entries(entries).map(([name, entry]) => [name, readChannel(name, entry, sources, report)]))
}

/** The protocols that each dialect is of. */
const dialects: Readonly<Record<NonNullable<ChannelEntry['dialect']>, readonly string[]>> = {
  invoke: ['anthropic'],
  predict: ['anthropic', 'gemini']
}

function readChannel(name: string, entry: ChannelEntry, sources: ChannelSources, report: Report): Channel | undefined {
  // A fault in one field must not hide those of other fields.
  const sound = (...fields: readonly string[]): boolean =>
    fields.every((field) => report.sound('channels', name, field))
  if (!isMap(entry)) return undefined
  const simulated = entry.protocol === 'simulator'
  const family = familyOf(entry)
  if (!simulated && entry.simulates !== undefined)
    report.key(['channels', name, 'simulates'], 'is for simulators: say "protocol: simulator", or remove this')
  if (entry.dialect !== undefined && !dialects[entry.dialect].includes(entry.protocol))
    report.key(
      ['channels', name, 'dialect'],
      `is for "protocol: ${dialects[entry.dialect].join('" or "protocol: ')}": remove this`
    )
  const { credential = '' } = entry
  if (entry.credential === '')
    report.value(['channels', name, 'credential'], 'is empty: give the key, or leave this out where none is needed')
  const living =
    sound('credential') && typeof credential !== 'string'
      ? new CredentialReader(['channels', name, 'credential'], sources.env, report).read(
          credential,
          family,
          entry.credential_header,
          entry.dialect
        )
      : undefined
  if (entry.credential !== undefined && entry.credentials !== undefined)
    report.key(['channels', name, 'credentials'], 'there is "credential" already: make it the first entry here')
  const several =
    Array.isArray(entry.credentials) && sound('protocol', 'credential_header')
      ? readCredentials(
          name,
          entry.credentials as NonNullable<ChannelEntry['credentials']>,
          { family, header: entry.credential_header, dialect: entry.dialect, env: sources.env },
          report
        )
      : undefined
  const limits = sound('limits') ? readChannelLimits(name, entry.limits, report) : undefined
  const baseUrl = sound('protocol', 'base_url', 'private')
    ? readBaseUrl(name, entry, sources.simulatorUrl, report)
    : undefined
  const own = several?.[0] ?? { credential: typeof credential === 'string' ? credential : '', living }
  const headers = sound('headers', 'credential', 'credentials') ? readHeaders(name, entry, own, report) : undefined
  if (headers) for (const one of several ?? []) readHeaders(name, entry, one, report)
  if (sound('http', 'reuse') && entry.http === 2 && !entry.reuse) {
    report.value(['channels', name, 'reuse'], 'HTTP/2 carries many requests on a connection: remove this, or "http: 2"')
  }
  const connecting = new ConnectingReader(name, entry, baseUrl, simulated, sources, report).read()
  if (!baseUrl || !headers || !connecting || !report.sound('channels', name)) return undefined
  const { connect, first_byte: firstByte, first_byte_whole: firstByteWhole, idle, total } = entry.timeouts
  const channel: Channel = {
    name,
    protocol: family,
    dialect: entry.dialect,
    baseUrl,
    credential: own.credential,
    living: own.living,
    ...(limits && { limits }),
    endpoints: new Set(entry.endpoints ?? (simulated ? channelEndpoints : ['chat'])),
    private: simulated || entry.private,
    models: new Map(Object.entries(entry.models)),
    switch: !entry.enabled ? 'off' : entry.drain ? 'draining' : 'on',
    weight: entry.weight,
    priority: entry.priority,
    timeouts: { connect, firstByte, idle, total, ...(firstByteWhole !== undefined && { firstByteWhole }) },
    headers,
    modelPath: entry.path,
    traits: traitsOf(entry.traits),
    reuse: entry.reuse,
    streamOptions: entry.usage.stream_options,
    ...connecting
  }
  if (!several) return channel
  const { limits: _ofAll, ...bare } = channel
  const byCredential = several.map((one): Channel => ({
    ...bare,
    credential: one.credential,
    living: one.living,
    headers: headersWith(entry, one).headers,
    weight: one.weight,
    credentialName: one.name,
    ...(one.limits && { limits: one.limits })
  }))
  return { ...channel, byCredential }
}

/** The protocol that the channel speaks; for a simulator, the one that it simulates. */
function familyOf({ protocol, simulates = 'openai' }: ChannelEntry): Channel['protocol'] {
  return protocol === 'simulator' ? simulates : protocol
}

function readBaseUrl(name: string, entry: ChannelEntry, simulatorUrl: URL, report: Report): URL | undefined {
  const path = ['channels', name, 'base_url']
  if (entry.protocol === 'simulator') {
    const own = 'a simulator has its own address: remove this, or choose another protocol'
    if (entry.base_url !== undefined) report.key(path, own)
    return familyOf(entry) === 'gemini' ? new URL('/v1beta', simulatorUrl) : simulatorUrl
  }
  if (entry.base_url === undefined) {
    report.key(['channels', name], '"base_url" is missing')
    return undefined
  }
  const url = URL.canParse(entry.base_url) ? new URL(entry.base_url) : undefined
  const fault = url ? faultOf(url, entry.private) : notAnAddress
  if (!url || fault !== undefined) {
    const shown = fault === undefined || fault === notAnAddress ? shownAddress(entry.base_url) : ''
    report.value(path, `${fault ?? notAnAddress}${shown}`)
    return undefined
  }
  url.pathname = url.pathname.replace(/\/+$/, '')
  for (const [parameter, value] of Object.entries(entry.query))
    if (!url.searchParams.has(parameter)) url.searchParams.set(parameter, value)
  return url
}

/** A credential, as far as headers have it. */
type Carried = Pick<Channel, 'credential' | 'living'>

function readHeaders(name: string, entry: ChannelEntry, carried: Carried, report: Report): Record<string, string> {
  const { own, headers } = headersWith(entry, carried)
  const seen = new Set<string>()
  for (const written of Object.keys(entry.headers)) {
    const header = written.toLowerCase()
    const path = ['channels', name, 'headers', written]
    const decided = header === own && (carried.credential !== '' || carried.living !== undefined)
    if (ownHeaders.has(header)) report.key(path, 'the gateway sets this header itself')
    else if (decided) report.key(path, 'there is a credential already: keep one of the two')
    else if (seen.has(header)) report.key(path, 'this header stands here twice')
    seen.add(header)
  }
  return headers
}

/** The headers of every request with a credential, and the name of the one that it travels in. */
function headersWith(
  entry: ChannelEntry,
  { credential: key, living }: Carried
): { own: string; headers: Record<string, string> } {
  const usual = credentialHeader(familyOf(entry), key, entry.dialect)
  const [of, credential] = entry.credential_header === undefined ? usual : [entry.credential_header.toLowerCase(), key]
  const own = living?.header ?? of
  const headers: Record<string, string> = Object.create(null)
  for (const [written, value] of Object.entries(entry.headers)) headers[written.toLowerCase()] = value
  if (key !== '') headers[own] = credential
  return { own, headers }
}
