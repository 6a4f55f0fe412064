// Signs by which an upstream's refusal shows whose fault it is: the operator's account, a missing model, or the
// client's request.
import type { UpstreamError } from '../protocol.ts'

/**
 * Whose fault a refusal is. `account`: every request with this account is refused. `model`: the upstream lacks the
 * model, or this account may not use it. `request`: what the client sent. `unclear`: any of these; another request may
 * succeed.
 */
export type Blame = 'account' | 'model' | 'request' | 'unclear'

/** A sign of a vendor. It holds when all of its conditions do. */
interface Sign {
  readonly means: Blame
  readonly status?: number
  /** The code, type or reason of the error. */
  readonly code?: string
  /**
   * How the message begins, where there is no code. For `account` it has to match at the beginning: an upstream repeats
   * parts of a request only further back, so no client can take a channel from others by what it sends.
   */
  readonly says?: RegExp
  readonly source: string
}

const openaiCodes = 'https://platform.openai.com/docs/guides/error-codes'
const anthropicErrors = 'https://platform.claude.com/docs/en/api/errors'
const geminiTroubles = 'https://ai.google.dev/gemini-api/docs/troubleshooting'
const googleReasons = 'https://github.com/googleapis/googleapis/blob/master/google/api/error_reason.proto'
const openRouterErrors = 'https://openrouter.ai/docs/api/reference/errors-and-debugging'
const groqErrors = 'https://console.groq.com/docs/errors'
const bedrockErrors = 'https://docs.aws.amazon.com/bedrock/latest/userguide/troubleshooting-api-error-codes.html'
const xaiErrors = 'https://docs.x.ai/docs/key-information/debugging'

/** The reasons in the details of Google's errors that refuse an account. */
const ofGoogleAccounts = [
  'API_KEY_INVALID',
  'API_KEY_SERVICE_BLOCKED',
  'API_KEY_HTTP_REFERRER_BLOCKED',
  'API_KEY_IP_ADDRESS_BLOCKED',
  'API_KEY_ANDROID_APP_BLOCKED',
  'API_KEY_IOS_APP_BLOCKED',
  'SERVICE_DISABLED',
  'BILLING_DISABLED',
  'CONSUMER_INVALID',
  'CONSUMER_SUSPENDED',
  'USER_PROJECT_DENIED',
  'ACCESS_TOKEN_EXPIRED',
  'ACCESS_TOKEN_SCOPE_INSUFFICIENT',
  'ACCESS_TOKEN_TYPE_UNSUPPORTED',
  'ACCOUNT_STATE_INVALID',
  'CREDENTIALS_MISSING',
  'LOCATION_TAX_POLICY_VIOLATED'
]

/** The names of AWS's errors that refuse an account: its keys, or the clock of whoever signs with them. */
const ofAwsAccounts = [
  'ExpiredTokenException',
  'UnrecognizedClientException',
  'InvalidSignatureException',
  'IncompleteSignatureException',
  'IncompleteSignature',
  'InvalidClientTokenId',
  'MissingAuthenticationToken',
  'MissingAuthenticationTokenException',
  'SignatureDoesNotMatch',
  'RequestExpired',
  'OptInRequired'
]
const awsErrors = 'https://docs.aws.amazon.com/bedrock/latest/APIReference/CommonErrors.html'

/** The first sign that holds counts. A vendor's own signs come before the general meaning of a status. */
const signs: readonly Sign[] = [
  // OpenAI.
  { means: 'account', code: 'insufficient_quota', source: openaiCodes },
  { means: 'account', code: 'billing_hard_limit_reached', source: openaiCodes },
  { means: 'account', code: 'billing_not_active', source: openaiCodes },
  { means: 'account', code: 'account_deactivated', source: openaiCodes },
  { means: 'account', code: 'unsupported_country_region_territory', source: openaiCodes },
  { means: 'model', code: 'model_not_found', source: openaiCodes },
  {
    means: 'model',
    says: /^your organization must be verified to /i,
    source: 'https://help.openai.com/en/articles/10910291-api-organization-verification'
  },
  {
    means: 'model',
    status: 403,
    says: /^you are not allowed to \w+ (?:embeddings )?from this model/i,
    source: openaiCodes
  },

  // Anthropic.
  { means: 'account', code: 'billing_error', source: anthropicErrors },
  {
    means: 'account',
    status: 400,
    says: /^your credit balance is too low/i,
    source: 'https://github.com/anthropics/claude-code/issues/66314'
  },
  {
    means: 'account',
    status: 400,
    says: /^you have reached your specified (?:\w+ )?api usage limits/i,
    source: 'https://github.com/anthropics/claude-code/issues/38035'
  },
  {
    means: 'account',
    status: 400,
    says: /^this organization has been disabled/i,
    source: 'https://github.com/anthropics/claude-code/issues/9384'
  },
  { means: 'model', code: 'not_found_error', says: /^model: /i, source: anthropicErrors },

  // Google.
  ...ofGoogleAccounts.map((code): Sign => ({ means: 'account', code, source: googleReasons })),
  { means: 'account', status: 400, says: /^api key (?:not valid|not found|expired)/i, source: geminiTroubles },
  { means: 'account', status: 400, says: /^user location is not supported/i, source: geminiTroubles },
  { means: 'account', status: 400, says: /^gemini api free tier is not available/i, source: geminiTroubles },
  {
    means: 'account',
    status: 403,
    says: /^your api key was reported as leaked/i,
    source: 'https://ai.google.dev/gemini-api/docs/troubleshooting#leaked-keys'
  },
  {
    means: 'request',
    status: 403,
    says: /^you do not have permission to access the /i,
    source: 'https://github.com/googleapis/python-genai/issues/1218'
  },
  {
    means: 'request',
    status: 403,
    says: /^cachedcontent not found/i,
    source: 'https://ai.google.dev/api/caching'
  },
  { means: 'model', status: 404, says: /^models\/\S+ is not (?:found|supported)/i, source: geminiTroubles },

  // AWS.
  ...ofAwsAccounts.map((code): Sign => ({ means: 'account', code, source: awsErrors })),
  { means: 'model', code: 'AccessDeniedException', source: bedrockErrors },
  { means: 'model', code: 'ResourceNotFoundException', source: bedrockErrors },
  {
    means: 'model',
    code: 'ValidationException',
    says: /^(?:the provided model identifier is invalid|invocation of model id .{1,256} with on-demand throughput isn)/i,
    source: 'https://repost.aws/questions/QUEU82wbYVQk2oU4eNwyiong'
  },

  // OpenRouter.
  { means: 'request', status: 403, says: /your input was flagged/i, source: openRouterErrors },
  { means: 'account', status: 403, says: /^key limit exceeded/i, source: openRouterErrors },
  { means: 'unclear', status: 402, says: /^this request requires more credits, or fewer/i, source: openRouterErrors },
  { means: 'model', status: 400, says: /^\S+ is not a valid model id/i, source: openRouterErrors },
  { means: 'model', status: 404, says: /^no endpoints found (?:for|matching your)/i, source: openRouterErrors },

  // Others with OpenAI's interface.
  { means: 'account', code: 'organization_restricted', source: groqErrors },
  { means: 'model', code: 'model_permission_blocked_org', source: groqErrors },
  { means: 'model', code: 'model_decommissioned', source: 'https://console.groq.com/docs/deprecations' },
  { means: 'account', status: 400, says: /^incorrect api key provided/i, source: xaiErrors },
  {
    means: 'account',
    says: /^your (?:newly created )?team (?:\S+ )?(?:doesn't have any credits|has either used all available credits)/i,
    source: 'https://github.com/continuedev/continue/issues/10373'
  },
  { means: 'account', code: 'Arrearage', source: 'https://help.aliyun.com/en/model-studio/error-code' },
  { means: 'account', code: 'exceeded_current_quota_error', source: 'https://platform.moonshot.ai/docs/api/chat' },
  { means: 'model', code: 'invalid_model', source: 'https://github.com/mistralai/mistral-vibe/issues/617' },
  { means: 'model', code: 'model_not_available', source: 'https://docs.together.ai/docs/error-codes' },
  {
    means: 'model',
    code: 'DeploymentNotFound',
    source: 'https://learn.microsoft.com/azure/ai-foundry/openai/reference'
  },
  {
    means: 'model',
    status: 400,
    says: /^model not exist/i,
    source: 'https://api-docs.deepseek.com/quick_start/error_codes'
  },
  {
    means: 'model',
    status: 404,
    says: /^(?:the )?model ["'`]?\S+ (?:not found|does not exist)/i,
    source: 'https://github.com/ollama/ollama/blob/main/docs/api.md and vLLM, OpenAIServingModels'
  },

  // The general meaning of a status.
  { means: 'account', status: 401, source: 'RFC 9110 §15.5.2' },
  { means: 'account', status: 402, source: 'RFC 9110 §15.5.3, and all vendors above that use it' },
  { means: 'unclear', status: 403, source: 'RFC 9110 §15.5.4: for reasons that need not have to do with credentials' },
  { means: 'account', status: 407, source: 'RFC 9110 §15.5.8' }
]

/** How many characters of a message are searched. */
const longestRead = 4096

/** What servers say about an unknown path, when the server is no interface to models. */
const noPath = /^(?:not found|404 page not found|cannot (?:get|post) \/\S*)?$/i

/**
 * Whose fault an upstream's refusal is; undefined when no sign holds. `model`: the upstream's name of the requested
 * model, empty when there was none. `guessed`: the status was derived from the message, so it only counts for signs
 * without other conditions.
 */
export function blameOf(status: number, said: UpstreamError, model: string, guessed: boolean): Blame | undefined {
  const message = said.message.slice(0, longestRead)
  const sign = signs.find((one) => holds(one, status, said, message, guessed))
  if (sign) return sign.means
  // A 404 that names the requested model is about the model. A 404 for the path itself means that there are no models.
  return status === 404 && model !== '' && (message.includes(model) || noPath.test(message)) ? 'model' : undefined
}

function holds(
  { status: wanted, code: named, says }: Sign,
  status: number,
  { code, type, reason }: UpstreamError,
  message: string,
  guessed: boolean
): boolean {
  const asked = wanted !== undefined && !(guessed && (named !== undefined || says !== undefined))
  if (asked && wanted !== status) return false
  if (named !== undefined && named !== code && named !== type && named !== reason) return false
  return says?.test(message) ?? true
}
