// The route of live streams: as server-sent events, or as JSON for those who ask again and again.
import { forbidden } from '../access/access.ts'
import type { AdminParts, Answer, Call, Route } from '../api/contract.ts'
import { invalidField, shown as quoted } from '../api/query.ts'
import { anything, flag, listOf, object, said, text } from '../api/shape.ts'
import { topics } from './event.ts'
import type { Sights, Topic } from './event.ts'

const polled = object({
  data: listOf(object({ id: text, event: text, data: anything })),
  next: said(text, 'What to give as `since` the next time.'),
  reset: said(flag, 'What came after `since` is not known any more: load anew what is shown.')
})

export const liveRoute: Route = {
  method: 'GET',
  path: '/admin/v1/live',
  summary: 'Streams what happens as server-sent events, or with since what happened after an event as JSON',
  access: { needs: 'see', tenant: { in: 'query' } },
  query: ['topics', 'tenant', 'since'],
  answers: { 200: ['text/event-stream', polled] },
  handle: watch
}

/**
 * Opens a stream, or answers with `since` what came after an event.
 * @throws GatewayError `too_many_streams`
 */
function watch(call: Call, parts: AdminParts): Answer {
  const { query, by, lastEvent } = call
  const { live } = parts
  const tenant = query.get('tenant') ?? null
  const asked = { by, tenant, topics: readTopics(query.get('topics'), by.tenant) }
  const sights = sightsOf(parts, tenant)
  const since = query.get('since')
  if (since === undefined) {
    const flow = live.open(asked, lastEvent, sights)
    // Proxies such as nginx gather answers otherwise.
    return { flow, contentType: 'text/event-stream', headers: { 'x-accel-buffering': 'no' } }
  }
  const { id, reset, events } = live.poll(asked, since, sights)
  const shown = events.map(({ id: of, name, data }) => ({ id: of, event: name, data: JSON.parse(data) as unknown }))
  return { json: { data: shown, next: id, reset } }
}

function sightsOf({ troubles, generations }: AdminParts, tenant: string | null): Sights {
  return {
    troubles: () => troubles.shown(tenant),
    // Who sees one tenant alone is not told of the configuration.
    config: () => (tenant === null ? JSON.stringify({ hash: generations.current.config.hash }) : undefined)
  }
}

/** Reads what a stream is about. `bound`: the only tenant that the actor sees, or null. */
function readTopics(given: string | undefined, bound: string | null): ReadonlySet<Topic> {
  const asked = (given ?? 'overview').split(',')
  for (const name of asked)
    if (!topics.includes(name as Topic))
      throw invalidField('topics', `${quoted(name)} is no topic: take some of ${topics.join(', ')}`)
  if (bound !== null && asked.includes('config'))
    throw forbidden('The configuration is for who sees the whole gateway.')
  return new Set(asked as Topic[])
}
