// The shape of gateway.yaml: every key with its meaning, default and unit, as schemas like those of plugin options.
import { adminShape } from './sections/admin.ts'
import { alertsShape } from './sections/alerts.ts'
import { channelsShape } from './channels/channels.ts'
import { includeShape } from './files/includes.ts'
import { modelsShape } from './models/model-entry.ts'
import { pluginsShape } from './sections/plugins.ts'
import { age, storeShape } from './sections/store.ts'
import { telemetryShape } from './sections/telemetry.ts'
import { keysShape, tenantsShape } from './sections/tenants.ts'
import { workersShape } from './sections/workers.ts'
import type { OptionSchema, OptionSchemas, OptionValues } from '../core/options/schema.ts'

const port = { type: 'integer', minimum: 0, maximum: 65535 } as const satisfies Partial<OptionSchema>
/** The range of a duration for timers: a longer timer would fire at once. */
const made = { type: 'integer', minimum: 0, maximum: 1_000_000 } as const
const timer = {
  type: 'string',
  format: 'duration',
  atLeast: '1ms',
  atMost: '24d'
} as const satisfies Partial<OptionSchema>
const size = { type: 'string', format: 'size', atLeast: '1KiB' } as const satisfies Partial<OptionSchema>

const listenShape = {
  type: 'object',
  description: 'Where clients connect. A change needs a restart, but for the certificate.',
  default: {},
  properties: {
    host: {
      type: 'string',
      minLength: 1,
      default: '127.0.0.1',
      description: 'Address to listen on; 0.0.0.0 or :: for all.'
    },
    port: { ...port, default: 8080, description: 'TCP port; 0 takes a free one, named in the ready line.' },
    tls: {
      type: 'object',
      description: 'Serves https instead of http.',
      required: ['cert', 'key'],
      properties: {
        cert: {
          type: 'string',
          minLength: 1,
          description: 'PEM file with the certificate chain, relative to this file.'
        },
        key: { type: 'string', minLength: 1, description: 'PEM file with the private key, relative to this file.' }
      }
    },
    cors: {
      type: 'array',
      default: [],
      examples: [['https://app.example.com']],
      items: {
        type: 'string',
        description: 'An origin, exactly as browsers send it.',
        pattern: '^https?://(?:[a-z0-9._-]+|\\[[0-9a-f:]+\\])(?::[0-9]{1,5})?$',
        patternErrorMessage: 'an origin like https://app.example.com, in small letters and without a path'
      },
      description: 'Origins whose pages may call from a browser. Keys in a page are seen by whoever looks at it.'
    }
  }
} as const satisfies OptionSchema

const limitsShape = {
  type: 'object',
  description: 'Bounds of the data listener.',
  default: {},
  properties: {
    json_body: { ...size, default: '32MiB', description: 'Largest JSON request body.' },
    multipart_body: { ...size, default: '100MiB', description: 'Largest multipart request body.' },
    body_memory: {
      ...size,
      default: '512MiB',
      description:
        'All request bodies held at one time; more are refused with 503. Uploads take half of it at most, and then go to the disk.'
    },
    cache_memory: {
      ...size,
      default: '64MiB',
      description: 'What plugins may keep in their caches, all tenants together.'
    },
    lame_duck: {
      ...timer,
      atLeast: '0s',
      default: '0s',
      description:
        'Time after SIGTERM in which `/readyz` says 503 already, but everything is still accepted and served: as long ' +
        'as load balancers take to send nothing more.'
    },
    drain_timeout: {
      ...timer,
      default: '30s',
      description: 'Time running requests have to end at shutdown and after a reload.'
    },
    client_stall: { ...timer, default: '60s', description: 'A client that reads nothing for this long is cut.' },
    client_header: { ...timer, default: '10s', description: 'Time a client has to send its request head.' },
    client_body: {
      ...timer,
      default: '30s',
      description: 'Time a client has to send a request body, plus what 1 KiB/s needs.'
    },
    keep_alive: { ...timer, default: '65s', description: 'Idle client connections are closed after this.' },
    connections: {
      type: 'integer',
      minimum: 1,
      maximum: 1_000_000,
      default: 20_000,
      description: 'Client connections at one time.'
    },
    on_disconnect: {
      type: 'string',
      enum: ['drain', 'abort'],
      default: 'drain',
      description:
        'When a client leaves: read the upstream on for its usage, within disconnect_drain (pictures to ' +
        'their end, as they are paid for whoever waits, `concurrent` at one time with all others), or abort at once.'
    },
    disconnect_drain: {
      type: 'object',
      description: 'How far an answer is read after its client left.',
      default: {},
      properties: {
        time: { ...timer, default: '1s', description: 'Time, per answer.' },
        bytes: { type: 'string', format: 'size', default: '256KiB', description: 'Bytes, per answer.' },
        concurrent: {
          type: 'integer',
          minimum: 0,
          maximum: 1_000_000,
          default: 64,
          description: 'Answers read on at one time.'
        }
      }
    },
    per_tenant: {
      type: 'object',
      description:
        'The most that the admins of one tenant may make in the store, with what is revoked or closed: all of it is kept in memory. Owners and operators may make more.',
      default: {},
      properties: {
        keys: { ...made, default: 10_000, description: 'Keys.' },
        projects: { ...made, default: 1_000, description: 'Projects.' },
        members: { ...made, default: 10_000, description: 'Members of all its projects.' }
      }
    },
    realtime: {
      type: 'object',
      description:
        'Bounds of realtime sessions. Whose pages may open one is in the environment: `REALTIME_ALLOWED_ORIGINS`.',
      default: {},
      properties: {
        message: {
          ...size,
          atMost: '16MiB',
          default: '4MiB',
          description:
            'Largest message of either side. A minute of uncompressed sound takes 3.7 MiB; what is above 64 KiB counts in `body_memory` while it is on its way.'
        },
        idle: {
          ...timer,
          default: '10m',
          description: 'A session in which neither side sends anything for this long is closed.'
        },
        duration: { ...timer, default: '60m', description: 'A session is closed after this.' },
        ping: {
          ...timer,
          default: '20s',
          description:
            'How often either side is asked whether it is still there; one that has not answered for twice as long is not.'
        }
      }
    }
  }
} as const satisfies OptionSchema

const tasksShape = {
  type: 'object',
  description: 'Pictures and videos that are made after their request was answered.',
  default: {},
  properties: {
    running: {
      type: 'integer',
      minimum: 1,
      maximum: 10_000,
      default: 16,
      description:
        'Pictures and responses that the gateway makes in the background by upstreams which answer only when they are there, at one time.'
    },
    waiting: {
      type: 'integer',
      minimum: 0,
      maximum: 100_000,
      default: 1000,
      description:
        'Requests that may wait for their turn at that, which goes round by tenant; more are refused with 503, and with 429 one of a tenant of whose as many wait as there are places left.'
    },
    open: {
      type: 'integer',
      minimum: 1,
      maximum: 1_000_000,
      default: 10_000,
      description: 'Tasks that have not ended, all tenants together; more are refused with 503.'
    },
    of_tenant: {
      type: 'integer',
      minimum: 1,
      maximum: 1_000_000,
      default: 1000,
      description: 'Tasks of one tenant that have not ended; more are refused with 429.'
    },
    poll: {
      type: 'object',
      description: 'Pauses between two questions to an upstream how far a task is.',
      default: {},
      properties: {
        first: {
          ...timer,
          default: '1s',
          description: 'The first pause, and the least between two questions that clients cause.'
        },
        most: { ...timer, default: '15s', description: 'The longest: each is half as long again as the one before.' }
      }
    },
    deadline: {
      ...timer,
      default: '24h',
      description: 'A task that has not ended after this is given up as `expired`, and nothing is charged for it.'
    },
    keep: {
      ...timer,
      default: '24h',
      description: 'What came of a task is kept for this long, unless its upstream keeps it for less.'
    },
    base_url: {
      type: 'string',
      default: '',
      examples: ['https://gateway.example.com'],
      description:
        'In front of the addresses that clients get their files from, where it is another than what they called.'
    }
  }
} as const satisfies OptionSchema

const stateShape = {
  type: 'object',
  description: 'Responses that the gateway keeps itself, of models that say `state: gateway`.',
  default: {},
  properties: {
    key: {
      type: 'string',
      secret: true,
      default: '',
      examples: ['${SLUICE_STATE_KEY}'],
      description:
        'A secret of at least 32 characters, from which the key is made that they are encrypted with. What was kept with another one is not found any more.'
    },
    keep: { ...age, default: '30d', description: 'How long they are kept.' },
    largest: {
      type: 'string',
      format: 'size',
      atLeast: '1KiB',
      atMost: '16MiB',
      default: '1MiB',
      description: 'Longest conversation, all its items together.'
    },
    of_tenant: {
      type: 'string',
      format: 'size',
      atLeast: '1MiB',
      default: '256MiB',
      description: 'What is kept of one tenant; then those that it made longest ago are forgotten.'
    },
    size: {
      type: 'string',
      format: 'size',
      atLeast: '1MiB',
      default: '4GiB',
      description:
        'What is kept of all tenants; then those that were made longest ago are forgotten, of the tenant that keeps most.'
    }
  }
} as const satisfies OptionSchema

/** The shape of a configuration, without the free `x-…` keys. Plugins check the entries of the chain. */
export const fileShape = {
  listen: listenShape,
  admin: adminShape,
  store: storeShape,
  workers: workersShape,
  limits: limitsShape,
  tasks: tasksShape,
  state: stateShape,
  channels: channelsShape,
  models: modelsShape,
  tenants: tenantsShape,
  keys: keysShape,
  plugins: pluginsShape,
  alerts: alertsShape,
  telemetry: telemetryShape,
  chain: {
    type: 'array',
    minItems: 1,
    items: { description: "A plugin's name, with its options: `- ratelimit: {}`." },
    description: 'Plugins, in the order in which a request passes them.'
  },
  include: includeShape
} as const satisfies OptionSchemas

/** The keys that one of its files must have. */
export const fileRequired = ['channels', 'models', 'chain'] as const

/** A file that has this shape. */
export type File = OptionValues<typeof fileShape, (typeof fileRequired)[number]>
