// The shape of the section `store` of gateway.yaml: where everything is kept, how much of it, and its backups.
import type { OptionSchema } from '../../core/options/schema.ts'
import { onLimitsUnavailableShape, redisShape } from '../../core/store/cluster/limits/options.ts'

/** The range of a time for which something is kept in the store. */
export const age = { type: 'string', format: 'duration', atLeast: '1h' } as const satisfies Partial<OptionSchema>
const room = { type: 'string', format: 'size', atLeast: '16MiB' } as const satisfies Partial<OptionSchema>

/** The section `store`. */
export const storeShape = {
  type: 'object',
  description: 'Where keys, ledger and request log are kept. A change needs a restart, but for `backups`.',
  default: {},
  properties: {
    sqlite: {
      type: 'string',
      minLength: 1,
      default: './data/sluice.db',
      description:
        'Database file of one gateway, relative to this file; made when missing, with its lock and the folder of its journal beside it.'
    },
    durability: {
      type: 'string',
      enum: ['power', 'process', 'deferred'],
      default: 'power',
      description:
        'What a settled request survives: a power failure, or (faster) only the death of the process. `deferred` (fastest): both, but the answer does not wait for it: ' +
        'it is written some 5 ms later, and a kill or a power failure loses the charges and records of at most the last tenth of a second. ' +
        'A disk that takes longer, or fails, is waited for. With `postgres`: the log in `folder`, which is never deferred; PostgreSQL has settings of its own.'
    },
    requests: {
      type: 'object',
      description: 'How much of the request log is kept. What is older or more goes by itself, the oldest first.',
      default: {},
      properties: {
        age: { ...age, default: '30d', description: 'How long a record is kept.' },
        size: {
          ...room,
          default: '8GiB',
          description:
            'How much room records take with their indexes, about: where the journal is in segments a request takes some 0.2 KiB, and its files follow an hour or two later, each as a whole; elsewhere 0.5 KiB.'
        }
      }
    },
    journal: {
      type: 'object',
      description:
        "Where the journal of a SQLite store is. In segments, all of it is in the folder of the database's name with `.journal`, compressed by itself, and entries are never removed. " +
        'With `form: database`, `age` and `size` say how much of it stays there: what is older or more is sealed in compressed files of that folder, likewise for ever. `sluice ledger verify` and `export` read them too.',
      default: {},
      properties: {
        form: {
          type: 'string',
          enum: ['database', 'segments'],
          description:
            'Where the journal is. `segments`: in files of the folder with `.journal`, to which it is only appended, and from which the database is made: a third of ' +
            'what is written for a request. `database`: in its rows. A store that has begun there is moved into segments by its next start, which takes long where it is ' +
            'large; its old files stay beside it, and nothing brings it back. Left out: in segments, and a store that has begun in a database is moved if it is small, once; ' +
            'when that fails it stays, and the log and /readyz say so.'
        },
        age: { ...age, default: '90d', description: 'How long an entry stays in a database. Not of segments.' },
        size: {
          ...room,
          default: '4GiB',
          description:
            'How much room entries take with their indexes in a database, about; a request takes some 0.5 KiB, sealed a tenth of it. Not of segments.'
        }
      }
    },
    answers: {
      type: 'object',
      description:
        'How many answers are kept for requests with an `Idempotency-Key`. What is older goes by itself, and so does what is more, the oldest of the tenant that has most: a request that is repeated then is run again.',
      default: {},
      properties: {
        age: { ...age, default: '24h', description: 'How long an answer is given again.' },
        size: { ...room, default: '256MiB', description: 'How much room answers take, about.' }
      }
    },
    routes: {
      type: 'object',
      description: 'What leads from the id of a stored response to the upstream that has it.',
      default: {},
      properties: {
        age: {
          ...age,
          default: '30d',
          description:
            'How long a stored response can be read and gone on with, as far as its upstream keeps it; a row takes some 0.3 KiB.'
        }
      }
    },
    backups: {
      type: 'object',
      description:
        'Makes backups of a SQLite database by itself, in a process of its own. Each is checked before older ones go. Takes effect at once, without a restart.',
      required: ['to'],
      properties: {
        to: {
          type: 'string',
          minLength: 1,
          description:
            'Folder for them, relative to this file; made when missing. Several gateways may have the same one, and another disk is safer.'
        },
        every: {
          type: 'string',
          format: 'duration',
          atLeast: '1m',
          default: '6h',
          description:
            'Time between two. One that was missed while the gateway did not run is made soon after its start.'
        },
        keep: {
          type: 'integer',
          minimum: 1,
          maximum: 10_000,
          default: 14,
          description:
            'How many are kept; older ones are removed. One with something that the store lacks, as before a restore, stays.'
        }
      }
    },
    postgres: {
      type: 'object',
      orText: true,
      description:
        'The PostgreSQL, 15 or newer, in which many gateways share one store, in place of `sqlite`; a text alone is its `url`. Needs `redis` too, and the package `pg`.',
      required: ['url'],
      examples: ['${DATABASE_URL}'],
      properties: {
        url: {
          type: 'string',
          secret: true,
          description:
            '`postgres://user:password@host:5432/database`; `?sslmode=require` encrypts and checks the certificate, by the authorities of the system or of the file `sslrootcert`. `timeout=20` waits so many seconds for an answer (5).'
        },
        listen_url: {
          type: 'string',
          secret: true,
          description:
            'The same database without a pooler, where `url` leads to one that gives each transaction another connection: notifications do not come through it.'
        }
      }
    },
    redis: redisShape,
    on_limits_unavailable: onLimitsUnavailableShape,
    folder: {
      type: 'string',
      minLength: 1,
      default: './data',
      description:
        'With `postgres`: what is of this gateway alone, relative to this file; made when missing. It has its name among the others, and a log for what PostgreSQL could not take: it should outlive the process.'
    }
  }
} as const satisfies OptionSchema
