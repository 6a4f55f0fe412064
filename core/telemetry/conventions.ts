// The names of OpenTelemetry's semantic conventions that the gateway uses, all of one version. Those of HTTP are
// stable, those of GenAI are in development: https://github.com/open-telemetry/semantic-conventions-genai
import type { ChannelFamily } from '../catalogue/catalogue.ts'
import type { EndpointName } from '../catalogue/endpoints.ts'

/** Says which version of the conventions the names are from: 1.45.0, the last that lists those of GenAI. */
export const schemaUrl = 'https://opentelemetry.io/schemas/1.45.0'

export const names = {
  errorType: 'error.type',
  httpMethod: 'http.request.method',
  httpRoute: 'http.route',
  httpStatus: 'http.response.status_code',
  scheme: 'url.scheme',
  path: 'url.path',
  serverAddress: 'server.address',
  serverPort: 'server.port',
  operation: 'gen_ai.operation.name',
  provider: 'gen_ai.provider.name',
  model: 'gen_ai.request.model',
  stream: 'gen_ai.request.stream',
  firstChunk: 'gen_ai.response.time_to_first_chunk',
  inputTokens: 'gen_ai.usage.input_tokens',
  outputTokens: 'gen_ai.usage.output_tokens',
  cacheRead: 'gen_ai.usage.cache_read.input_tokens',
  cacheWrite: 'gen_ai.usage.cache_creation.input_tokens',
  reasoning: 'gen_ai.usage.reasoning.output_tokens',
  tokenType: 'gen_ai.token.type'
} as const

/** The histograms of clients, with the buckets that the conventions ask for. */
export const histograms = {
  tokens: {
    name: 'gen_ai.client.token.usage',
    unit: '{token}',
    description: 'Tokens that an attempt at an upstream has used.',
    buckets: [1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864]
  },
  duration: {
    name: 'gen_ai.client.operation.duration',
    unit: 's',
    description: 'Duration of an attempt at an upstream.',
    buckets: [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92]
  },
  firstChunk: {
    name: 'gen_ai.client.operation.time_to_first_chunk',
    unit: 's',
    description: 'Time from the start of an attempt to the first byte of its stream.',
    buckets: [0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10]
  }
} as const

/** The provider of a channel that `telemetry.providers` does not name, by the protocol that it speaks. */
export const providers: Readonly<Record<ChannelFamily, string>> = {
  openai: 'openai',
  anthropic: 'anthropic',
  gemini: 'gcp.gemini',
  bedrock: 'aws.bedrock'
}

/** What an upstream is asked to do. Where the conventions have no word for it, the name of the endpoint is taken. */
export function operationOf(endpoint: EndpointName, family: ChannelFamily): string {
  if (endpoint === 'chat' || endpoint === 'responses') return family === 'gemini' ? 'generate_content' : 'chat'
  return endpoint === 'completions' ? 'text_completion' : endpoint
}
