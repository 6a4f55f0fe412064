// Renders explanations of requests for people.
import type { BudgetStanding, LimitStanding } from '../../contract/contract.ts'
import type { Explanation, ShownExplanation } from '../../admin/requests/explanation.ts'
import type { Reason } from '../../errors.ts'
import { formatDollars } from '../../money/money.ts'
import type { ExclusionRecord, RequestRecord } from '../../store/requests.ts'
import { plain, renderTable } from './table.ts'

/** A heading with what stands below it; left out when that is empty. */
type Section = readonly [heading: string, lines: readonly string[]]

/** What would become of a request. */
export function renderExplanation(told: ShownExplanation): string {
  const { request, caller, held, order, models, excluded, upstream, dropped, skipped_plugins: skipped = [] } = told
  const { requested_model: asked } = request
  const facts = [
    ['Request', `${request.method} ${request.path}${request.streamed ? ', streamed' : ''} (${request.endpoint})`],
    ...(request.model === null
      ? []
      : [['Model', `${request.model}${asked === null ? '' : ` in the place of ${asked}`}`]]),
    ['Key', caller ? `${caller.key} of ${ownerOf(caller)}` : 'none that is known'],
    ['Outcome', outcomeOf(told)]
  ]
  return rendered([
    ['', [renderTable(facts)]],
    ['Why', told.refusal?.reason ? reasonLines(told.refusal.reason) : []],
    ['Budgets', budgetLines(told.budgets)],
    ['Limits', limitLines(told.limits)],
    ['Held', held ? heldLines(held) : []],
    [
      'Channels, in the order in which they are tried',
      order && order.length > 0
        ? table(
            ['CHANNEL', 'RANK', 'WEIGHT', 'HEALTH'],
            order.map(({ channel, rank, weight, health }) => [
              channel,
              String(rank),
              String(weight),
              health ? stateOf(health.state, health.reason, health.until) : '-'
            ])
          )
        : []
    ],
    ['Models that may answer, in order', models ? [models.join(', ')] : []],
    ['Left out', excludedLines(excluded ?? [])],
    ['Sent upstream', upstream ? upstreamLines(upstream) : []],
    ['Dropped in translation', dropped.length > 0 ? [dropped.join(', ')] : []],
    ['Workers', told.workers ? workerLines(told.workers) : []],
    ['Plugins that took no part, and may refuse or change the request', skipped.length > 0 ? [skipped.join(', ')] : []]
  ])
}

/** Who would do otherwise, or has not said it. */
function workerLines({ alike, otherwise, missing }: NonNullable<Explanation['workers']>): string[] {
  return [
    ...(otherwise.length > 0
      ? [`${alike.join(', ')} would do this; ${otherwise.join(', ')} see channels that look better`]
      : []),
    ...(missing.length > 0 ? [`${missing.join(', ')} did not answer`] : [])
  ]
}

/** A record as whoever asked is shown it: actors of one tenant are not told which channels were asked. */
export type ShownRecord = Omit<RequestRecord, 'attempts'> & Partial<Pick<RequestRecord, 'attempts'>>

/** Why a request of the log became what it did. */
export function renderRecord(record: ShownRecord): string {
  const { decision, attempts = [], dropped = [] } = record
  const code = record.error_code === null ? '' : ` with ${record.error_code}`
  const facts = [
    ['Request', `${record.request_id} at ${record.time} (${record.endpoint}${record.streamed ? ', streamed' : ''})`],
    ...(record.model === null
      ? []
      : [
          [
            'Model',
            `${record.model}${record.requested_model === null ? '' : ` in the place of ${record.requested_model}`}`
          ]
        ]),
    [
      'Key',
      record.key === null || record.tenant === null
        ? 'none that is known'
        : `${record.key} of ${ownerOf({ ...record, tenant: record.tenant })}`
    ],
    ['Outcome', `${record.outcome} ${record.status}${code}`],
    ['Cost', `${record.cost_usd} USD${record.reserved_nano === null ? '' : `; ${usd(record.reserved_nano)} were held`}`]
  ]
  return rendered([
    ['', [renderTable(facts)]],
    ['Why', record.reason ? reasonLines(record.reason) : []],
    [
      'Attempts',
      attempts.length > 0
        ? table(
            ['CHANNEL', 'STATUS', 'CODE', 'MS', 'SAID'],
            attempts.map(
              ({ channel, credential, status, error_code, duration_ms, error, upstream_error: said, sent }) => [
                named(channel, credential),
                sent === false ? 'not sent' : String(status ?? '-'),
                error_code ?? 'ok',
                String(duration_ms),
                said
                  ? [said.code, said.type, said.message].filter((one) => one !== undefined).join(': ')
                  : (error ?? '')
              ]
            )
          )
        : []
    ],
    [
      'Channels, in the order in which they were tried',
      decision && decision.order.length > 0
        ? table(
            ['CHANNEL', 'RANK', 'WEIGHT', 'HEALTH'],
            decision.order.map(({ channel, rank, weight, health }) => [
              channel,
              String(rank),
              String(weight),
              health ? stateOf(health.code, health.reason, health.until ?? null) : '-'
            ])
          )
        : []
    ],
    ['Left out', excludedLines(decision?.excluded ?? [])],
    ['No other was tried', decision?.stopped === undefined ? [] : [decision.stopped]],
    ['Dropped in translation', dropped.length > 0 ? [dropped.join(', ')] : []]
  ])
}

function rendered(sections: readonly Section[]): string {
  return sections
    .filter(([, lines]) => lines.length > 0)
    .map(([heading, lines]) => {
      const body = lines
        .flatMap((text) => text.split(/\r?\n/))
        .map(plain)
        .join('\n')
      return heading === '' ? body : `${heading}\n${body.replace(/^(?=.)/gm, '  ')}`
    })
    .join('\n\n')
}

function outcomeOf({ outcome, refusal, upstream, answered_by: by }: ShownExplanation): string {
  if (refusal) return `refused with ${refusal.status} ${refusal.code}: ${refusal.message}`
  if (outcome === 'sent') return upstream ? `sent to the channel ${upstream.channel}` : 'sent upstream'
  if (outcome === 'answered')
    return by === undefined || by === 'gateway' ? 'answered by the gateway itself' : `answered by the plugin ${by}`
  return outcome === 'kept'
    ? 'goes to where what it names is kept, which is not looked up'
    : 'nobody chooses a channel in explanations'
}

function ownerOf({
  tenant,
  project,
  member
}: {
  tenant: string
  project: string | null
  member: string | null
}): string {
  return [tenant, project, member].filter((level) => level !== null).join('/')
}

function usd(nano: string): string {
  return `${formatDollars(BigInt(nano))} USD`
}

function table(heads: readonly string[], rows: readonly (readonly string[])[]): string[] {
  return [renderTable([heads, ...rows])]
}

function stateOf(state: string, reason: string | null, until: string | null): string {
  return `${state}${until === null ? '' : ` until ${until}`}${reason === null ? '' : `: ${reason}`}`
}

/** A channel, with the credential of it that is meant where it has several. */
function named(channel: string, credential: string | undefined): string {
  return credential === undefined ? channel : `${channel} (${credential})`
}

function excludedLines(excluded: readonly ExclusionRecord[]): string[] {
  if (excluded.length === 0) return []
  const rows = excluded.map(({ channel, credential, by, code, reason, until }) => [
    named(channel, credential),
    by,
    stateOf(code, reason, until ?? null)
  ])
  return table(['CHANNEL', 'BY', 'WHY'], rows)
}

function budgetLines(budgets: readonly BudgetStanding[]): string[] {
  if (budgets.length === 0) return []
  return table(
    ['SCOPE', 'PER', 'LIMIT', 'CHARGED', 'HELD', 'LEFT', 'RESETS'],
    budgets.map((one) => [
      one.scope,
      one.per,
      ...[one.limit_nano, one.posted_nano, one.pending_nano, one.left_nano].map(usd),
      one.resets_at ?? 'never'
    ])
  )
}

function limitLines(limits: readonly LimitStanding[]): string[] {
  if (limits.length === 0) return []
  return table(
    ['SCOPE', 'LIMIT', 'MODELS', 'MOST', 'USED', 'LEFT', 'ALL FREE'],
    limits.map((one) => [
      one.scope,
      one.limit_name,
      one.models ?? '*',
      String(one.limit),
      String(one.used),
      String(one.left),
      one.resets_at ?? '-'
    ])
  )
}

function heldLines({ usd: amount, price_version, lines, max_output }: NonNullable<Explanation['held']>): string[] {
  const parts = lines.map(
    ({ counted, units, usd_per_million }) => `${counted}: ${units} at ${usd_per_million} USD per million`
  )
  const limited = max_output === null ? [] : [`each answer is limited to ${max_output} tokens`]
  return [`${amount} USD at the most, at the price ${price_version}`, ...parts, ...limited]
}

function upstreamLines({
  method,
  url,
  protocol,
  translated,
  headers,
  body
}: NonNullable<Explanation['upstream']>): string[] {
  return [
    `${method} ${url} in the protocol ${protocol}${translated ? ', translated' : ''}`,
    ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`),
    ...(body === null ? [] : ['', typeof body === 'string' ? body : JSON.stringify(body, undefined, 2)])
  ]
}

function reasonLines(reason: Reason): string[] {
  if ('what' in reason) {
    const { what, where, remedy } = reason
    return [what, ...(where === null ? [] : [`said by ${where}`]), ...(remedy === null ? [] : [`remedy: ${remedy}`])]
  }
  const free = reason.free_at === null ? [] : [`enough is free at ${reason.free_at}, if nothing more is taken`]
  if (reason.by === 'budget') {
    return [
      `the budget of ${usd(reason.limit_nano)} per ${reason.per} of ${reason.scope}`,
      `asked ${usd(reason.asked_nano)}, left ${usd(reason.left_nano)}: charged ${usd(reason.posted_nano)}, held ${usd(reason.pending_nano)}`,
      ...free
    ]
  }
  const models = reason.models === null ? '' : ` for ${reason.models}`
  return [
    `the limit ${reason.limit_name} of ${reason.limit}${models} of ${reason.scope}`,
    `asked ${reason.asked}, left ${reason.left}`,
    ...free
  ]
}
