// The parameters of queries: each means the same in all routes that take it.
import type { JsonSchema } from '../../options/json-schema.ts'

const text = (description: string) => ({ description, schema: { type: 'string', minLength: 1 } })
const moment = { type: 'string', minLength: 1, examples: ['2026-11-21', '2026-11-21T08:00:00Z'] }

/** All parameters by name. */
export const parameters = {
  limit: {
    description: 'How many items a page has at most.',
    schema: { type: 'integer', minimum: 1, maximum: 1000 }
  },
  cursor: text('The `next` of the page before.'),
  parts: {
    description: 'Into how many parts the time is divided.',
    schema: { type: 'integer', minimum: 1, maximum: 600 }
  },
  request_id: text('The id of a request.'),
  tenant: text('What is of this tenant.'),
  project: text('What is of this project.'),
  member: text('What is of this member.'),
  key: text('What is of the key of this name.'),
  model: text('By the public name of a model.'),
  channel: text('By the name of a channel, or in capabilities by its protocol.'),
  scope: text('By a scope, such as `project:acme/web`.'),
  client: text('By the protocol of the client.'),
  state: text('By the state that is shown.'),
  source: { description: 'What the file declares, or what was made at run time.', schema: { enum: ['file', 'store'] } },
  role: text('By the role.'),
  actor: text('What this one did.'),
  action: text('By what was done, such as `key.create`.'),
  object_kind: text('By the kind of thing.'),
  object: text('By the name of the thing.'),
  outcome: text('By how it ended.'),
  format: { description: 'CSV, which is the default, or JSON lines.', schema: { enum: ['csv', 'jsonl'] } },
  to: text('Where to go after a sign-in: a path of this listener.'),
  by: text('What to tell sums apart by: names with commas between them.'),
  tag: text('By a tag, or by a tag and its value: in requests `team` or `team=search`, in spend `team:search`.'),
  endpoint: text('By the endpoint.'),
  code: text('By the code of the error.'),
  status: {
    description: 'By the status, or a hundred of them.',
    schema: { type: 'string', pattern: '^[1-5](\\d\\d|xx)$' }
  },
  not_tenant: text('Without what is of this tenant.'),
  not_project: text('Without what is of this project.'),
  not_member: text('Without what is of this member.'),
  not_key: text('Without what is of the key of this name.'),
  not_model: text('Without this model.'),
  not_endpoint: text('Without this endpoint.'),
  not_channel: text('Without requests for which this channel was asked.'),
  not_code: text('Without this code of an error.'),
  not_outcome: text('Without what ended like this.'),
  not_tag: text('Without this tag, or without this value of it: `team` or `team=search`.'),
  not_status: {
    description: 'Without this status, or a hundred of them.',
    schema: { type: 'string', pattern: '^[1-5](\\d\\d|xx)$' }
  },
  cost_min: text('That cost so many US dollars or more.'),
  cost_max: text('That cost so many US dollars or less.'),
  duration_min: text('That took so long or longer: `2s`.'),
  duration_max: text('That took so long or less.'),
  since: { description: 'From then on. In spend, a day; in live, the id of an event.', schema: moment },
  step: {
    description: 'How long each step of figures over time is; by default about a hundredth of the range.',
    schema: { type: 'string', minLength: 1, examples: ['1m', '1h'] }
  },
  topics: {
    description: 'What a stream is about: some of overview, requests, troubles, config with commas between them.',
    schema: { type: 'string', minLength: 1, examples: ['overview,troubles'] }
  },
  until: { description: 'Up to then. In spend, a day that is not included.', schema: moment }
} as const satisfies Readonly<Record<string, { description: string; schema: JsonSchema }>>

/** The name of a parameter. */
export type ParameterName = keyof typeof parameters
