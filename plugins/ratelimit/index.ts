// Limits the requests, tokens and concurrency of tenants, projects, members and keys. All limits are checked in one
// step, and the tightest is shown on every reply.
import { definePlugin, GatewayError, limitedTokens } from '../../core/contract/contract.ts'
import type { Exchange, Outcome } from '../../core/contract/contract.ts'
import { caller, goingOn, reservation, slot, usage } from '../../core/contract/slots.ts'
import type { Caller, LimitSet } from '../../core/catalogue/caller.ts'
import type { Decision, Lease, LimitName, LimitState } from '../../core/store/limits.ts'
import { expectedTokens, tokensOfTurn } from '../estimate.ts'

const words: Readonly<Record<LimitName, string>> = {
  concurrency: 'requests at the same time',
  rps: 'requests per second',
  rpm: 'requests per minute',
  tpm: 'tokens per minute'
}

/** The caller that the key of an open session belongs to by now; looked up about once a second. */
const present = slot('ratelimit/present').of<{ caller: Caller }>()

export default definePlugin({
  name: 'ratelimit',
  summary:
    'Holds a key and all levels above it to their requests per second and minute, tokens per minute and requests at the same time.',
  options: {
    reset: {
      type: 'string',
      enum: ['delta', 'epoch'],
      default: 'delta',
      description:
        'How `X-RateLimit-Reset` tells the time: `delta` in seconds from now, `epoch` as Unix time in seconds.'
    },
    expected_output: {
      type: 'integer',
      minimum: 0,
      default: 1024,
      description:
        'Output tokens counted against tokens per minute until an answer ends and its real count is known; ' +
        'a request that limits its output to less counts with that.'
    }
  },
  rehearses: true,
  needs: [caller],
  awaits: [usage],
  setup({ reset, expected_output }, { catalogue, services }) {
    const show = (exchange: Exchange, { limit, remaining }: LimitState, resetMs: number): void => {
      exchange.setHeader('X-RateLimit-Limit', limit)
      exchange.setHeader('X-RateLimit-Remaining', remaining)
      exchange.setHeader('X-RateLimit-Reset', Math.ceil((reset === 'epoch' ? Date.now() + resetMs : resetMs) / 1000))
    }

    const apply = (exchange: Exchange, decision: Decision): void => {
      const shown = decision.admitted ? tightest(decision.states) : decision.refusedBy
      if (shown) show(exchange, shown, decision.admitted ? shown.resetMs : decision.retryAfterMs)
      if (!decision.admitted) throw refusalOf(decision)
      const { lease } = decision
      exchange.defer((outcome) => release(exchange, lease, outcome))
    }

    return {
      onRequest(exchange) {
        // Limits belong to the key's name, whichever way the client sends the key.
        const sets = exchange.get(caller).limitsOf(exchange.model)
        if (sets.length === 0) return
        const { metering } = exchange.request.operation
        // A session takes a place in the concurrency limit; its tokens are counted per turn.
        const tokens = !metering || metering.turns || !limitTokens(sets) ? 0 : expectedTokens(exchange, expected_output)
        const decision = exchange.rehearsal ? services.limits.look(sets, tokens) : services.limits.decide(sets, tokens)
        return decision instanceof Promise ? decision.then((made) => apply(exchange, made)) : apply(exchange, decision)
      },

      whileOpen(exchange) {
        const { digest, secret } = exchange.find(caller) ?? {}
        const now = digest && catalogue.findKey(secret?.issuer ?? digest)
        const known = exchange.find(present)
        if (!now) return
        if (known) known.caller = now
        else exchange.set(present, { caller: now })
      },

      async reportStandings({ limitsOf }, model) {
        const sets = limitsOf(model)
        if (sets.length === 0) return []
        // A limit of tokens is told to whoever asks for some.
        const { states } = await services.limits.look(sets, 1)
        return states.map(({ set, name, limit, remaining, resetMs }) => ({
          by: 'limit',
          level: set.level,
          scope: set.scope,
          limit_name: name,
          models: set.models,
          limit,
          used: limit - remaining,
          left: remaining,
          resets_at: name === 'concurrency' ? null : new Date(Date.now() + resetMs).toISOString()
        }))
      },

      onTurn(exchange, turn) {
        const who = exchange.find(present)?.caller ?? exchange.get(caller)
        const sets = who.limitsOf(exchange.model)
        if (!sets.some(({ rates: { rps, rpm, tpm } }) => (rps ?? rpm ?? tpm) !== undefined)) return
        const tokens = limitTokens(sets)
          ? turn.input.typical + Math.min(turn.maxOutput ?? Infinity, expected_output)
          : 0
        const take = (decision: Decision): void => {
          if (!decision.admitted) throw refusalOf(decision)
          turn.defer(() => decision.lease.release(tokensOfTurn(turn)))
        }
        const decision = services.limits.decide(sets, tokens, true)
        return decision instanceof Promise ? decision.then(take) : take(decision)
      }
    }
  }
})

function limitTokens(sets: readonly LimitSet[]): boolean {
  for (const { rates } of sets) if (rates.tpm !== undefined) return true
  return false
}

/** The limit with the smallest share left; undefined when the request has no limits. */
function tightest(states: readonly LimitState[]): LimitState | undefined {
  let tight = states[0]
  for (const state of states) {
    if (tight && state.remaining / state.limit < tight.remaining / tight.limit) tight = state
  }
  return tight
}

/**
 * Gives the lease back with the real count. Cached input does not count, as with most upstreams. When an upstream was
 * may have read it and its usage is unknown, the expected count stays.
 */
function release(exchange: Exchange, lease: Lease, { kind }: Outcome): void {
  // The usage of the attempt, because the slot `usage` is filled by a release too, which may run later.
  const metered = exchange.attempts.at(-1)?.usage?.usage
  // A whole answer ends when its money is settled.
  const unseen = kind === 'completed' && exchange.find(reservation) !== undefined && !exchange.find(goingOn)
  if (metered) lease.release(limitedTokens(metered), unseen)
  else lease.release(kind !== 'failed' && exchange.attempts.some(({ mayBeRead }) => mayBeRead) ? undefined : 0)
}

function refusalOf({ refusedBy, retryAfterMs, asked }: Extract<Decision, { admitted: false }>): GatewayError {
  const { set, name, limit, remaining: left } = refusedBy
  const models = set.models === null ? '' : ` of models ${set.models}`
  const when = name === 'concurrency' ? 'when another one has ended' : `in ${seconds(retryAfterMs)} s`
  return new GatewayError(
    `rate_limit_${name}`,
    `${holderOf(set)} is limited to ${limit} ${words[name]}${models}: ${asked} asked for, ${left} left. Try again ${when}.`,
    {
      retryAfterMs,
      reason: {
        by: 'limit',
        level: set.level,
        scope: set.scope,
        limit_name: name,
        models: set.models,
        limit,
        asked,
        used: limit - left,
        left,
        free_at: name === 'concurrency' ? null : new Date(Date.now() + retryAfterMs).toISOString()
      }
    }
  )
}

/** Whose limit it is, as a message begins: `This API key`, `The project acme/web`. */
function holderOf({ level, scope }: LimitSet): string {
  return level === 'key' ? 'This API key' : `The ${level} ${scope.slice(level.length + 1)}`
}

/** Seconds with as many digits as a person wants to know. */
function seconds(ms: number): string {
  return ms < 10_000 ? String(ms / 1000) : String(Math.ceil(ms / 1000))
}
