// References in requests to things that an upstream keeps. Of a thing that was made through the gateway, its owner and
// its account are known. Any other thing may belong to anybody who uses the same account.
import { accountOf, byAccount } from '../catalogue/account.ts'
import type { Catalogue, Channel } from '../catalogue/catalogue.ts'
import { compileGlobs } from '../catalogue/globs.ts'
import { Models } from '../catalogue/models.ts'
import { Watch } from '../bodies/lens.ts'
import { inTurns } from '../bodies/turns.ts'
import type { Candidates } from '../contract/candidates.ts'
import { GatewayError } from '../contract/contract.ts'
import type { Awaitable, Exchange, Message, Observer, Reason, UpstreamResponse } from '../contract/contract.ts'
import type { OperationContext, ServedOperation } from '../contract/served.ts'
import { ownerOf } from '../contract/owner.ts'
import { caller } from '../contract/slots.ts'
import { mostReferences, ReferenceScan, referring } from './reference-scan.ts'

/** Members of a request that make something new, whose id then stands in the answer. */
const making = ['tools', 'container', 'audio', 'modalities'] as const
const mayMake = new Watch(making)
/** Form fields that hold the id of a file. */
const formFields = ['file_id', 'input_reference[file_id]', 'video[id]'] as const

/**
 * Wraps an operation so that its requests are checked for references to things that upstreams keep, and so that the ids
 * of new things are noted from its answers.
 */
export function guarded(operation: ServedOperation): ServedOperation {
  if (!operation.upstream || operation.body === 'none') return operation
  const { onCandidates, onResponse } = operation
  return {
    ...operation,
    onCandidates(exchange, candidates, context) {
      const kept = keepAccount(exchange, candidates, context)
      return kept instanceof Promise
        ? kept.then(() => onCandidates?.(exchange, candidates, context))
        : onCandidates?.(exchange, candidates, context)
    },
    onResponse(exchange, response, context) {
      return both(onResponse?.(exchange, response, context), noteNames(exchange, response, context))
    }
  }
}

/**
 * Whether references to things of unknown owners are refused for this caller at the accounts of these channels. The
 * tenant's setting decides. Without one, they are refused when one of the accounts serves models of several tenants.
 */
export function refusesForeign(exchange: Exchange, catalogue: Catalogue, channels: readonly Channel[]): boolean {
  const { tenant = '' } = exchange.find(caller) ?? {}
  const wish = catalogue.tenants.get(tenant)?.foreignReferences
  if (wish) return wish === 'refuse'
  return channels.flatMap(byAccount).some((channel) => sharedOf(catalogue).has(accountOf(channel)))
}

/** By the map of tenants, which is another one when a tenant has changed. */
/** Why something that nobody has made through the gateway is refused, for operators. */
export function foreignReason(exchange: Exchange, id: string, { tenants }: Catalogue): Reason {
  const { tenant = '' } = exchange.find(caller) ?? {}
  const wish = tenants.get(tenant)?.foreignReferences === 'refuse'
  return {
    by: 'reference',
    what: `${id.slice(0, 64)} was not made through the gateway by this project, and ${
      wish ? `the tenant ${tenant} refuses such references` : 'an account that may have it is not of this tenant alone'
    }`,
    where: `tenants.${tenant}.foreign_references`,
    remedy: wish ? 'take refuse out' : 'give the tenant an account of its own, or say pass'
  }
}

const sharedAccounts = new WeakMap<Catalogue['tenants'], ReadonlySet<string>>()

/** The accounts that serve models of more than one tenant. */
function sharedOf({ tenants, models }: Catalogue): ReadonlySet<string> {
  let shared = sharedAccounts.get(tenants)
  if (shared) return shared
  const users = new Map<string, Set<string>>()
  // Which names of a pattern a tenant may use is not looked into: it might be any.
  const open = models instanceof Models ? models.patterns.flatMap(({ channels }) => channels) : []
  for (const tenant of tenants.values()) {
    const matches = compileGlobs(tenant.models)
    const named = [...models.values()].filter(({ name }) => matches(name))
    const served = named.flatMap((model) => [model, ...(model.standIns?.models ?? [])])
    const reached = new Set([...open, ...served.flatMap(({ channels }) => channels)])
    for (const channel of [...reached].flatMap(byAccount)) {
      const account = accountOf(channel)
      const known = users.get(account)
      if (known) known.add(tenant.name)
      else users.set(account, new Set([tenant.name]))
    }
  }
  shared = new Set([...users].filter(([, whose]) => whose.size > 1).map(([account]) => account))
  sharedAccounts.set(tenants, shared)
  return shared
}

/** Keeps only the channels of the account that has what the request refers to. */
function keepAccount(exchange: Exchange, candidates: Candidates, context: OperationContext): Awaitable<void> {
  const found = referencesIn(exchange)
  return found instanceof Promise
    ? found.then((names) => keepFound(names, exchange, candidates, context))
    : keepFound(found, exchange, candidates, context)
}

const none: ReadonlySet<string> = new Set()

function referencesIn({ body }: Exchange): Awaitable<ReadonlySet<string>> {
  if (!body.form) return body.lens.mayMention(referring) ? inTurns(new ReferenceScan(body.bytes)) : none
  return new Set(formFields.flatMap((name) => body.fields.string(name) ?? []))
}

function keepFound(
  names: ReadonlySet<string>,
  exchange: Exchange,
  candidates: Candidates,
  context: OperationContext
): Awaitable<void> {
  return names.size === 0 ? undefined : keepAccountOf(names, exchange, candidates, context)
}

async function keepAccountOf(
  names: ReadonlySet<string>,
  exchange: Exchange,
  candidates: Candidates,
  { catalogue, services }: OperationContext
): Promise<void> {
  if (names.size > mostReferences)
    throw new GatewayError(
      'invalid_field',
      `The request refers to more than ${mostReferences} things that an upstream keeps: send fewer at a time.`
    )
  const owner = ownerOf(exchange)
  const routes = await Promise.all([...names].map((name) => services.routes.find(owner, name)))
  const unknown = [...names].find((_name, at) => !routes[at])
  if (unknown !== undefined && refusesForeign(exchange, catalogue, candidates.channels))
    throw new GatewayError(
      'invalid_field',
      `${JSON.stringify(unknown.slice(0, 64))} is the name of nothing that was made through this gateway by your project: send what it stands for.`,
      { reason: foreignReason(exchange, unknown, catalogue) }
    )
  const [first] = routes.filter((route) => route !== undefined)
  if (!first) return
  if (routes.some((route) => route && route.account !== first.account))
    throw new GatewayError(
      'invalid_field',
      'What the request refers to is kept in different places: send what it stands for.'
    )
  if (!candidates.channels.flatMap(byAccount).some((channel) => accountOf(channel) === first.account))
    throw new GatewayError(
      'invalid_field',
      `What the request refers to is kept where this model is not served: ask for the model \`${first.model}\`.`,
      { param: 'model' }
    )
  candidates.bind((channel) => accountOf(channel) === first.account)
}

/**
 * Observes an answer for ids of things that were made for the request, and keeps their routes before the client sees
 * the ids.
 */
function noteNames(
  exchange: Exchange,
  { attempt }: UpstreamResponse,
  { services }: OperationContext
): Observer | undefined {
  const { lens, form } = exchange.body
  if (!attempt || attempt.translated || form || !lens.mayMention(mayMake)) return undefined
  if (!making.some((member) => lens.has(member))) return undefined
  const { channel } = attempt
  const known = new Set<string>()
  const freshOf = (names: ReadonlySet<string>): readonly string[] => {
    const fresh = [...names].filter((name) => !known.has(name)).slice(0, mostReferences - known.size)
    for (const name of fresh) known.add(name)
    return fresh
  }
  const keep = async (fresh: readonly string[]): Promise<void> => {
    if (fresh.length === 0) return
    const { name: at } = channel
    const place = { ...ownerOf(exchange), channel: at, account: accountOf(channel), model: exchange.model }
    await services.routes.put(fresh.map((id) => ({ ...place, id, kind: 'other' })))
  }
  return {
    takes: 'messages',
    observe({ data }) {
      if (known.size === mostReferences || !mayName(data)) return
      const found = inTurns(new ReferenceScan(data))
      if (found instanceof Promise) return exchange.showAfter(() => found.then((names) => keep(freshOf(names))))
      const fresh = freshOf(found)
      if (fresh.length > 0) exchange.showAfter(() => keep(fresh))
    }
  }
}

function mayName(data: Buffer): boolean {
  return data.includes('"container') || data.includes('"file_id"') || data.includes('"audio"')
}

function both(first: Observer | undefined, second: Observer | undefined): Observer | undefined {
  if (!first || !second) return first ?? second
  return {
    takes: 'messages',
    observe(message: Message) {
      first.observe(message)
      second.observe(message)
    },
    end(complete) {
      first.end?.(complete)
      second.end?.(complete)
    }
  }
}
