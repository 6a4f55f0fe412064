// What the configuration says of limits that many nodes share, as the section `store` will have it.
import type { OptionSchema, OptionValue } from '../../../options/schema.ts'
import { unavailableModes } from './stand-in.ts'

/** The member `redis` of the section `store`; a text alone is its `url`. */
export const redisShape = {
  type: 'object',
  description: 'The Redis or Valkey that keeps rates and slots for all gateways; a text alone is its `url`.',
  orText: true,
  required: ['url'],
  properties: {
    url: {
      type: 'string',
      secret: true,
      description:
        '`redis://user:password@host:6379/0`, or `rediss://` for TLS, which checks the name. With `sentinels`, the host is the name of the master; of a `cluster` it is one server, and the rest holds for all.'
    },
    sentinels: {
      type: 'array',
      minItems: 1,
      items: { type: 'string', secret: true, description: 'The URL of a sentinel.' },
      description: 'The sentinels that know where the master is.'
    },
    cluster: { type: 'boolean', default: false, description: 'Whether the servers are a Redis Cluster.' },
    ca: {
      type: 'string',
      format: 'path',
      description: 'A PEM file of the authorities that are trusted instead of those of the system.'
    },
    prefix: {
      type: 'string',
      pattern: '^[\\w.:-]{1,64}$',
      patternErrorMessage: '1 to 64 letters, digits, `_`, `.`, `:` or `-`',
      default: 'sluice',
      description: 'What all keys begin with. Installations that share a Redis need different ones.'
    },
    command_timeout: {
      type: 'string',
      format: 'duration',
      atLeast: '10ms',
      atMost: '2s',
      default: '100ms',
      description: 'How long a request waits for a decision before it is decided without Redis.'
    },
    connect_timeout: {
      type: 'string',
      format: 'duration',
      atLeast: '100ms',
      atMost: '30s',
      default: '2s',
      description: 'How long a server may take to accept a connection.'
    }
  }
} as const satisfies OptionSchema

/** The member `on_limits_unavailable` of the section `store`. */
export const onLimitsUnavailableShape = {
  type: 'string',
  enum: unavailableModes,
  default: 'share',
  description:
    'What becomes of requests while Redis is gone: each gateway goes on with its part of every limit (`share`), they get a 503 (`refuse`), or nothing limits them (`allow`).'
} as const satisfies OptionSchema

/** The checked values of {@link redisShape}, with the text of the file `ca` in place of its path. */
export type RedisOptions = Exclude<OptionValue<typeof redisShape>, string>
