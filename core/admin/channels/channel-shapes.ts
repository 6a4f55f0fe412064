// The shapes of what the routes of channels answer.
import { amount, count, flag, listOf, mapOf, nullable, number, object, oneOf, said, text, time } from '../api/shape.ts'

const switched = oneOf('on', 'draining', 'off')
const limitLeft = object({
  name: said(text, '`rpm`, `tpm` and `concurrency` of the file, or what the upstream calls it.'),
  of: oneOf('requests', 'tokens', 'concurrency'),
  by: said(oneOf('file', 'upstream'), 'Who says so: gateway.yaml, or the upstream in the heads of its answers.'),
  models: said(nullable(text), 'The models that it is for; null for all.'),
  limit: said(nullable(number), 'Null when it was not told.'),
  left: number,
  resets: said(nullable(time), 'When all of it is free again, if nothing more is taken.')
})
const credentialHealth = object({
  name: said(text, 'As the file calls it, or its place in the list. A credential itself is never shown.'),
  weight: number,
  state: said(
    oneOf('healthy', 'cooling', 'ejected', 'probing'),
    '`cooling`: it rests, as the upstream asked. `ejected`: the upstream refuses it.'
  ),
  until: said(nullable(time), 'When it is used again.'),
  since: said(nullable(time), 'Since when it rests.'),
  reason: nullable(text),
  successes: count,
  failures: count,
  limits: listOf(limitLeft)
})
const channelHealth = object({
  state: oneOf('healthy', 'cooling', 'ejected', 'probing'),
  since: said(nullable(time), 'Since when it is not healthy.'),
  until: said(nullable(time), 'When a cooling channel is used again, or an ejected one is probed.'),
  reason: said(nullable(text), 'Why it is not healthy.'),
  consecutive_failures: count,
  successes: said(count, 'Attempts since the channel was last configured.'),
  failures: count,
  recent: said(count, 'Attempts of the last five minutes, as far as they are remembered.'),
  error_rate: said(nullable(number), 'The share of them that failed because of the upstream, from 0 to 1.'),
  first_event_ms: said(
    nullable(object({ p50: number, p95: number })),
    'Milliseconds from the start of an attempt to the first event or byte of its answer.'
  ),
  tokens_per_second: said(nullable(number), 'Output tokens a second of streams.'),
  limits: said(
    listOf(limitLeft),
    'What is left of its limits; of a channel with one credential, those that are told too.'
  ),
  credentials: said(listOf(credentialHealth), 'Empty for a channel with one credential.')
})
export const channel = object({
  name: text,
  protocol: said(text, 'That of its upstream; `simulator` for the one that needs no network.'),
  base_url: said(text, 'The address of the upstream without its query. A credential is never shown.'),
  private: said(flag, 'Whether the address may be a private one.'),
  credential_expires: said(
    nullable(time),
    'When its certificate ends, or its credential: a JSON Web Token, or the present one of those that are renewed. Null when nothing says so.'
  ),
  endpoints: said(listOf(text), 'What it is asked for.'),
  models: said(mapOf(text), 'The names at the upstream by the names for clients.'),
  priority: said(number, 'The lowest is tried first.'),
  weight: said(number, 'The share of the requests among channels of one priority.'),
  state: said(
    oneOf('draining', 'off', 'healthy', 'cooling', 'ejected', 'probing'),
    'What it is switched to; where it is on, its health.'
  ),
  switched: object({
    file: said(switched, 'What gateway.yaml says.'),
    operator: said(switched, 'What an operator switched it to.'),
    since: said(nullable(time), 'Since when, and by whom, an operator has switched it.'),
    by: nullable(text)
  }),
  health: said(nullable(channelHealth), 'Null when no plugin of the chain tells it.')
})
export const channelTest = object({
  channel: text,
  results: listOf(
    object({
      endpoint: text,
      model: text,
      ok: flag,
      status: said(nullable(count), 'Null when the upstream did not answer.'),
      error: said(nullable(object({ code: text, said: text })), 'What the upstream said, without secrets.'),
      first_byte_ms: nullable(number),
      duration_ms: number,
      usage: nullable(mapOf(number)),
      ...amount('cost')
    })
  )
})
