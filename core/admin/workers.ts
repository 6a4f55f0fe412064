// The route of the worker threads that serve clients: what each has to do, and what became of those before it.
import type { AdminParts, Answer, Call, Route } from './api/contract.ts'
import { count, nullable, number, object, oneOf, said, text, time } from './api/shape.ts'
import { page } from './api/shapes.ts'
import type { WorkerPlace } from './api/worker-place.ts'

const load = (description: string) => said(nullable(count), description)

const shape = object({
  worker: said(count, 'Its number. One that takes the place of another has the number of that.'),
  state: said(
    oneOf('serves', 'silent', 'away'),
    '`silent`: it did not answer within 200 ms. `away`: it has ended, and another one takes its place.'
  ),
  since: said(nullable(time), 'When it began to serve.'),
  connections: load('Open connections of clients; null when it did not say, as are the next ones.'),
  exchanges: load('Requests that have begun and are not settled.'),
  upstream_connections: load('Open connections to upstreams.'),
  busy: said(nullable(number), 'The share of the last second, about, in which it was at work: from 0 to 1.'),
  ends: said(count, 'How many workers have ended at this place.'),
  last_end: nullable(object({ time, reason: text }))
})

export const workersRoute: Route = {
  method: 'GET',
  path: '/admin/v1/workers',
  summary: 'Lists the worker threads that serve clients; none where one thread does all',
  access: { needs: 'see' },
  query: [],
  answers: { 200: page(shape) },
  async handle(_call: Call, { workers }: AdminParts): Promise<Answer> {
    const places = workers ? await workers.places() : []
    return { json: { data: places.map(show), next: null } }
  }
}

function show({ number: worker, serves, since, load: told, ends, last }: WorkerPlace): object {
  return {
    worker,
    state: told ? 'serves' : serves ? 'silent' : 'away',
    since: since === undefined ? null : new Date(since).toISOString(),
    connections: told?.connections ?? null,
    exchanges: told?.exchanges ?? null,
    upstream_connections: told?.upstreamConnections ?? null,
    busy: told ? Math.round(told.busy * 1000) / 1000 : null,
    ends,
    last_end: last ? { time: new Date(last.time).toISOString(), reason: last.reason } : null
  }
}
