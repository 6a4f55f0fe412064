// The operation that makes client secrets: short-lived keys for browsers, made with a real key.
import { createHash, randomBytes } from 'node:crypto'
import { lensOf } from '../bodies/lens.ts'
import { KnownNames } from '../bodies/lookalike.ts'
import { secretPrefix } from '../catalogue/caller.ts'
import type { Exchange, Reply } from '../contract/contract.ts'
import type { OperationContext, ServedOperation } from '../contract/served.ts'
import { caller } from '../contract/slots.ts'
import { GatewayError, unknownModel } from '../errors.ts'
import { parseDollars } from '../money/money.ts'
import { steadyNow } from '../watchdog/steady-time.ts'

/** How many seconds a client secret can open sessions: the most, the least, and the default. */
const longest = 7200
const shortest = 10
const usual = 600
/** The largest session settings, in bytes. They are kept for as long as the client secret. */
const largestSettings = 16 * 1024
const settingsNames = new KnownNames(['model'])

/** https://platform.openai.com/docs/api-reference/realtime-sessions/create-realtime-client-secret */
export const clientSecrets: ServedOperation = {
  name: 'realtime.client_secrets',
  endpoint: 'realtime',
  summary:
    'Makes a key for a browser: for one model, for some minutes, on the budgets and limits of the key that makes it.',
  method: 'POST',
  paths: ['/v1/realtime/client_secrets'],
  protocol: 'openai-realtime',
  body: 'json',
  required: ['session'],
  parameters: {
    session: { type: 'object', description: 'The settings that sessions begin with; `model` must be among them.' },
    expires_after: {
      type: 'object',
      description: `\`seconds\` from ${shortest} to ${longest}, ${usual} where it is absent: so long a session may be opened. One that is open goes on.`
    },
    budget: {
      type: ['number', 'string'],
      description:
        'US dollars that all sessions of this key together may spend, within the budgets of the key that makes it.'
    }
  },
  onRequest: mint
}

async function mint(exchange: Exchange, { catalogue, services }: OperationContext): Promise<Reply> {
  const who = exchange.find(caller)
  if (!who || who.secret) throw new GatewayError('endpoint_not_allowed', 'A client secret makes no others: use a key.')
  const { model, settings } = readSession(exchange)
  if (!catalogue.models.get(model) || !who.mayUse(model)) throw unknownModel(model)
  const value = `${secretPrefix}${randomBytes(24).toString('base64url')}`
  const begun = Object.keys(settings).some((name) => name !== 'type')
  const expires = steadyNow() + readSeconds(exchange) * 1000
  const budget = readBudget(exchange)
  const kept = await services.secrets.put({
    sha256: createHash('sha256').update(value).digest(),
    issuer: who.digest,
    model,
    expires,
    ...(begun && { settings: JSON.stringify({ type: 'realtime', ...settings }) }),
    ...(budget !== undefined && { budget })
  })
  if (!kept)
    throw new GatewayError(
      'rate_limit_concurrency',
      'This API key has too many client secrets that have not expired.',
      { retryAfterMs: shortest * 1000 }
    )
  const session = { type: 'realtime', object: 'realtime.session', id: `sess_${exchange.id}`, ...settings, model }
  return {
    status: 200,
    headers: [['cache-control', 'no-store']],
    body: { value, expires_at: Math.floor(expires / 1000), session }
  }
}

/** The settings without the model, which goes into the address of a session instead. */
function readSession({ body: { fields, lens } }: Exchange): { model: string; settings: Record<string, unknown> } {
  if (fields.size('session') > largestSettings)
    throw invalid('session', `must not be larger than ${largestSettings} bytes`)
  const bytes = lens.type('session') === 'object' ? lens.slice('session')! : undefined
  const within = bytes && lensOf(bytes)
  // The settings are sent to an upstream when a session is opened, and its parser may read ambiguous ones differently.
  if (within === null) throw invalid('session', 'must not name a member twice')
  if (within && settingsNames.lookalike(within))
    throw invalid('session', 'has a member that would be taken for `model` by some')
  const session = fields.json('session')
  if (typeof session !== 'object' || session === null || Array.isArray(session))
    throw invalid('session', 'must be an object with a `model`')
  const { model, ...settings } = session as Record<string, unknown>
  if (typeof model !== 'string' || model === '')
    throw invalid('session.model', 'must be the name of a model, as listed by GET /v1/models')
  return { model, settings }
}

function readSeconds({ body: { fields } }: Exchange): number {
  if (!fields.has('expires_after')) return usual
  const given = fields.size('expires_after') > largestSettings ? undefined : (fields.json('expires_after') ?? {})
  if (typeof given !== 'object' || Array.isArray(given))
    throw invalid('expires_after', 'must be an object with `seconds`')
  const { seconds = usual } = given as { seconds?: unknown }
  if (typeof seconds === 'number' && Number.isInteger(seconds) && seconds >= shortest && seconds <= longest)
    return seconds
  throw invalid('expires_after.seconds', `must be a whole number from ${shortest} to ${longest}`)
}

function readBudget({ body: { fields } }: Exchange): bigint | undefined {
  if (!fields.has('budget')) return undefined
  const given = fields.size('budget') <= 40 ? fields.json('budget') : undefined
  const budget = typeof given === 'string' || typeof given === 'number' ? parseDollars(given) : undefined
  if (budget === undefined) throw invalid('budget', 'must be an amount in US dollars, such as 0.25')
  return budget
}

function invalid(param: string, message: string): GatewayError {
  return new GatewayError('invalid_field', `The field \`${param}\` ${message}.`, { param })
}
