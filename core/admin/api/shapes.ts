// The shapes of what the admin API answers, as JSON Schemas (2020-12) for its OpenAPI document.
import { spendGroups } from '../../store/spend.ts'
import { roles } from '../access/roles.ts'
import {
  amount,
  anything,
  count,
  flag,
  listOf,
  mapOf,
  nano,
  nullable,
  number,
  object,
  oneOf,
  said,
  text,
  time,
  usd
} from './shape.ts'
import type { Shape } from './shape.ts'

/** Beside what several workers were asked for. */
export const missingWorkers: Shape = said(
  listOf(count),
  'The numbers of the workers that did not answer within 200 ms: what is theirs is lacking. Absent where one thread does all.'
)

/** A page of a list. `more` are members beside it. */
export function page(items: Shape, more: Readonly<Record<string, Shape>> = {}): Shape {
  const next = { ...nullable(text), description: 'The cursor of the next page; null on the last one.' }
  return object({ data: listOf(items), next, ...more }, { optional: Object.keys(more) })
}

/** The answer of every refusal. */
export const refusal: Shape = object(
  { error: object({ type: text, message: text, code: text, param: text }, { optional: ['param'] }) },
  { open: true }
)

const rights = {
  enabled: flag,
  models: listOf(text),
  endpoints: listOf(text),
  limits: mapOf(anything),
  budget: listOf(object({ usd, usd_nano: nano, per: text, alerts: listOf(number) }, { optional: ['alerts'] })),
  expires: nullable(time),
  tags: mapOf(text)
}
const source = oneOf('file', 'store')

const levelMembers = {
  name: text,
  tenant: text,
  scope: text,
  source,
  state: oneOf('active', 'disabled', 'expired', 'closed', 'unowned'),
  ...rights,
  created: nullable(time),
  changed: nullable(time),
  closed: nullable(time)
}
const tenantMembers = { ...levelMembers, foreign_references: nullable(oneOf('refuse', 'pass')) }
const member = object({ ...levelMembers, project: text })

/** One level of each kind. */
export const levelShapes = { tenant: object(tenantMembers), project: object(levelMembers), member } as const

/** The lists of levels. Tenants have the tree below them. */
export const levelListShapes = {
  tenant: page(object({ ...tenantMembers, projects: listOf(object({ ...levelMembers, members: listOf(member) })) })),
  project: page(levelShapes.project),
  member: page(member)
} as const

const keyMembers = {
  name: text,
  source,
  state: oneOf('active', 'disabled', 'expired', 'revoked', 'unowned'),
  hint: nullable(text),
  secrets: listOf(object({ hint: text, created: nullable(time), until: nullable(time) })),
  tenant: text,
  project: nullable(text),
  member: nullable(text),
  ...rights,
  created: nullable(time),
  changed: nullable(time),
  revoked: nullable(time)
}
export const key = object(keyMembers)
export const issuedKey = object({ ...keyMembers, key: { ...text, description: 'Its secret, shown this once.' } })

const operatorMembers = {
  name: text,
  role: oneOf(...roles),
  tenant: nullable(text),
  enabled: flag,
  state: oneOf('active', 'disabled', 'expired', 'revoked'),
  tokens: listOf(object({ hint: text, created: time, expires: time, last_used: nullable(time) })),
  created: time,
  changed: nullable(time),
  revoked: nullable(time)
}
export const operator = object(operatorMembers)
export const issuedOperator = object({ ...operatorMembers, token: { ...text, description: 'Shown this once.' } })

const ways = ['admin_token', 'operator_token', 'oidc'] as const
export const session = object({
  session: { ...text, description: 'What it is called, which opens nothing.' },
  how: oneOf(...ways),
  id: { ...text, description: 'As the audit log names the actor.' },
  name: nullable(text),
  role: nullable(oneOf(...roles)),
  tenant: nullable(text),
  address: nullable(text),
  agent: { ...nullable(text), description: 'What the browser calls itself.' },
  created: time,
  seen: time,
  idle_ends: { ...time, description: 'When it ends if nothing more is asked by it.' },
  expires: { ...time, description: 'When it ends in any case.' }
})
export const signedOut = object({ signed_out: flag })
export const waysIn = object({
  token: flag,
  oidc: flag,
  private: { ...flag, description: 'Whether nobody can read along: by https, or on this machine.' }
})
export const whoAmI = object({
  kind: text,
  id: text,
  name: nullable(text),
  role: oneOf(...roles),
  tenant: nullable(text),
  how: { ...oneOf(...ways, 'none'), description: 'How the session was begun; none without a session.' },
  session: nullable(text),
  csrf: {
    ...nullable(text),
    description: 'What changes by this session need in X-Sluice-CSRF; null without a session.'
  },
  began: nullable(time),
  idle_ends: nullable(time),
  expires: nullable(time),
  may: { ...listOf(text), description: 'The routes that may be used: `GET /admin/v1/keys`.' },
  clients: { ...text, description: 'The address that the gateway listens at for clients.' }
})

export const auditPage = page(
  object(
    {
      seq: count,
      time,
      action: text,
      actor_kind: text,
      actor: text,
      actor_name: nullable(text),
      actor_role: oneOf(...roles),
      actor_tenant: nullable(text),
      address: nullable(text),
      request_id: nullable(text),
      object_kind: text,
      object: text,
      tenant: nullable(text),
      outcome: oneOf('done', 'refused'),
      before: nullable(mapOf(anything)),
      after: nullable(mapOf(anything)),
      why: text,
      times: count,
      hash: text
    },
    // Entries of earlier versions lack some, and actors of one tenant do not see all.
    {
      optional: [
        'seq',
        'address',
        'hash',
        'why',
        'times',
        'actor_name',
        'actor_role',
        'actor_tenant',
        'request_id',
        'tenant',
        'outcome'
      ]
    }
  ),
  { head: nullable(object({ seq: count, hash: text })) }
)

export const balance = object({
  scope: text,
  window: text,
  tenant: nullable(text),
  ...amount('limit'),
  ...amount('posted'),
  ...amount('pending'),
  ...amount('left'),
  alerts: said(listOf(count), 'Percent of the limit at which an alert is sent.'),
  told: said(nullable(count), 'The highest of them that was told in this window.')
})

const hiddenAmounts = { ...amount('cost'), ...amount('margin'), ...amount('uncosted'), ...amount('failed') }
const groups = Object.fromEntries(spendGroups.map((name) => [name, nullable(name === 'tag' ? mapOf(text) : text)]))
export const spendSum: Shape = {
  ...object(
    { ...groups, requests: count, ...amount('charge'), ...hiddenAmounts, usage: mapOf(number) },
    { optional: [...Object.keys(groups), ...Object.keys(hiddenAmounts)] }
  ),
  patternProperties: { '^tag:': nullable(text) }
}

const why = { code: text, reason: text, until: text }
const candidate = { channel: text, rank: number, weight: number }
/** How the channel of a request was chosen, and why a request was refused. */
export const decision = object(
  {
    order: listOf(object({ ...candidate, health: object(why, { optional: ['until'] }) }, { optional: ['health'] })),
    excluded: listOf(
      object({ channel: text, credential: text, by: text, ...why }, { optional: ['credential', 'until'] })
    ),
    stopped: text,
    models: listOf(object({ model: text, code: text, reason: text })),
    omitted: count
  },
  { optional: ['stopped', 'models', 'omitted'] }
)
export const reason = object({ by: text }, { open: true })

const fates = mapOf(
  object(
    { meaning: text, fate: oneOf('carried', 'adapted', 'dropped', 'refused'), how: text, member: text },
    { optional: ['how', 'member'] }
  )
)
export const capability = object({ client: text, channel: text, passed: flag, request: fates, answer: fates })

/** A refusal with more members. */
function refusedWith(members: Readonly<Record<string, Shape>>): Shape {
  return object({ ...members, ...(refusal['properties'] as Record<string, Shape>) })
}

/** What is wrong with a configuration, and where. */
export const problems = listOf(object({ place: text, message: text }, { open: true }))
const change = object(
  {
    kind: oneOf('added', 'removed', 'changed'),
    section: text,
    name: nullable(text),
    member: nullable(text),
    before: anything,
    after: anything,
    restart: flag,
    text
  },
  { optional: ['before', 'after'] }
)
const compared = { file: text, in_use: text, on_disk: nullable(text) }
export const configDiff = object({ ...compared, changes: listOf(change), problems })
const reloadMembers = {
  ok: flag,
  reason: text,
  by: nullable(text),
  time,
  duration_ms: number,
  hash: text,
  problems,
  changes: listOf(text)
}
export const reloaded = object(reloadMembers)
export const notReloaded = refusedWith(reloadMembers)
export const upgraded = object({ ok: flag, pid: count, generation: count, gap_ms: count })
const replaced = object({ file: text, done: oneOf('written', 'made', 'taken out'), aside: nullable(text) })
const rollbackMembers = { file: text, files: listOf(replaced), to: text }
export const rolledBack = object({ ...reloadMembers, ...rollbackMembers })
export const notRolledBack = refusedWith({ ...reloadMembers, ...rollbackMembers })
export const written = object({ ...reloadMembers, file: text, files: listOf(replaced) })
/** What is refused before a reload has its problems alone. */
export const notWritten = object(
  { ...(refusal['properties'] as Record<string, Shape>), ...reloadMembers, file: text, files: listOf(replaced) },
  { optional: [...Object.keys(reloadMembers).filter((name) => name !== 'problems'), 'file', 'files'] }
)
const pastMembers = { seq: count, hash: text, time, reason: text, by: nullable(text), changes: listOf(text) }
export const pastConfig = object(pastMembers)
export const shownPastConfig = object({ ...pastMembers, included: listOf(text), config: mapOf(anything) })
export const config = object({
  version: text,
  file: text,
  included: listOf(text),
  hash: text,
  store: text,
  nodes: listOf(object({ name: text, version: text, config: text, since: time, own: flag, workers: count })),
  last_reload: nullable(reloaded),
  config: mapOf(anything)
})

const standing = object({ by: text }, { open: true })
export const explanation = object(
  {
    outcome: oneOf('sent', 'answered', 'refused', 'kept', 'undecided'),
    request: object({
      method: text,
      path: text,
      endpoint: text,
      client_protocol: text,
      model: nullable(text),
      requested_model: nullable(text),
      streamed: flag
    }),
    caller: nullable(
      object({ key: text, tenant: text, project: nullable(text), member: nullable(text), expires: nullable(time) })
    ),
    answered_by: nullable(text),
    refusal: nullable(
      object({
        status: count,
        code: text,
        type: text,
        message: text,
        param: nullable(text),
        retry_after_ms: nullable(number),
        reason: nullable(reason)
      })
    ),
    budgets: listOf(standing),
    limits: listOf(standing),
    held: nullable(
      object({
        usd,
        nano,
        price_version: text,
        lines: listOf(object({ counted: text, units: number, usd_per_million: usd })),
        max_output: nullable(number)
      })
    ),
    order: nullable(
      listOf(
        object({
          ...candidate,
          health: nullable(object({ state: text, reason: nullable(text), until: nullable(time) }))
        })
      )
    ),
    models: nullable(listOf(text)),
    excluded: nullable(
      listOf(object({ channel: text, credential: text, by: text, ...why }, { optional: ['credential', 'until'] }))
    ),
    upstream: nullable(mapOf(anything)),
    dropped: listOf(text),
    skipped_plugins: listOf(text),
    workers: said(
      object({
        alike: said(listOf(count), 'The numbers of the workers that would do this.'),
        otherwise: said(listOf(count), 'Those that think better of some channel, and would do something else.'),
        missing: said(listOf(count), 'Those that did not answer.')
      }),
      'Only where several workers serve: each judges channels by the answers that it has had. The worst of what they would do is explained.'
    )
  },
  // Actors of one tenant are not shown these.
  { optional: ['answered_by', 'order', 'models', 'excluded', 'upstream', 'skipped_plugins', 'workers'] }
)

export const health = object({ status: text, reasons: listOf(text) }, { optional: ['reasons'] })

/** An OpenAPI document. */
export const document = object({ openapi: text, info: mapOf(anything), paths: mapOf(anything) }, { open: true })
