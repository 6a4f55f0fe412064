// The key `credential` of a channel in gateway.yaml, and each of its `credentials`: a text, or where one comes from
// that changes while the gateway runs.
import { existsSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { missingLibrary } from '../../core/credentials/aws.ts'
import type { AwsSource, AzureSource, CommandSource, CredentialSource } from '../../core/credentials/source.ts'
import type { FileSource, GcpSource, LivingCredential, Oauth2Source } from '../../core/credentials/source.ts'
import type { OptionSchema, OptionValue } from '../../core/options/schema.ts'
import { credentialHeader } from '../../core/protocols/credentials.ts'
import { Files } from '../files/files.ts'
import { isLocal } from './proxy.ts'
import type { Path, Report } from '../report.ts'
import type { Environment } from '../files/variables.ts'

const file = { type: 'string', minLength: 1 } as const satisfies Partial<OptionSchema>
const text = { type: 'string', minLength: 1 } as const satisfies Partial<OptionSchema>
const secret = { type: 'string', minLength: 1, secret: true } as const satisfies Partial<OptionSchema>

export const credentialShape = {
  type: 'object',
  orText: true,
  description:
    "The upstream's API key; none is sent without one. Or where it comes from, one of these, when it changes while the gateway runs: then it is renewed in time.",
  properties: {
    file: { ...file, description: 'File with the key, relative to this one; a new one is used within two seconds.' },
    command: {
      type: 'array',
      minItems: 1,
      items: { type: 'string', description: 'The program, then its arguments; there is no shell.' },
      description: 'A program that prints the key and is run in the folder of this file, for 10 s at most.'
    },
    every: {
      type: 'string',
      format: 'duration',
      atLeast: '1s',
      atMost: '24d',
      description:
        'How often the command is run; 5m unless said otherwise. One that prints a JSON Web Token also before that ends.'
    },
    oauth2: {
      type: 'object',
      required: ['token_url', 'client_id', 'client_secret'],
      description: 'A token server, asked with the grant client_credentials; the token goes out as a Bearer token.',
      properties: {
        token_url: { ...text, examples: ['https://login.example.com/oauth2/token'], description: 'Its address.' },
        client_id: { ...text, description: 'Who asks.' },
        client_secret: { ...secret, description: 'The secret of that client.' },
        client_auth: {
          type: 'string',
          enum: ['basic', 'post'],
          default: 'basic',
          description: 'Whether the client shows its secret in a header (basic) or in the form (post).'
        },
        scope: { ...text, description: 'What is asked for, where the server wants it said.' },
        parameters: {
          type: 'object',
          default: {},
          examples: [{ audience: 'https://api.example.com' }],
          additionalProperties: { type: 'string', description: 'The value.' },
          description: 'More members of the form.'
        }
      }
    },
    gcp: {
      type: 'object',
      description:
        "Google's application default credentials: the file that is named here or in GOOGLE_APPLICATION_CREDENTIALS, that of gcloud, else the metadata server.",
      properties: {
        credentials: {
          ...file,
          description: 'File of a service account, a user, a workload or an impersonation, relative to this one.'
        },
        scope: {
          ...text,
          default: 'https://www.googleapis.com/auth/cloud-platform',
          description: 'What the token is for.'
        },
        hosts: {
          type: 'array',
          default: [],
          items: { type: 'string', description: 'A host name.' },
          description: 'Hosts beside those of googleapis.com that the file may have something sent to.'
        }
      }
    },
    azure: {
      type: 'object',
      description:
        'Microsoft Entra: by client_secret, else by token_file (workload identity), else as the managed identity of the machine. AZURE_TENANT_ID, AZURE_CLIENT_ID, AZURE_CLIENT_SECRET, AZURE_FEDERATED_TOKEN_FILE and AZURE_AUTHORITY_HOST stand in for what is left out.',
      properties: {
        tenant: { ...text, description: 'The id of the tenant at Entra.' },
        client_id: { ...text, description: 'The id of the application, or of the managed identity.' },
        client_secret: { ...secret, description: 'The secret of the application.' },
        token_file: { ...file, description: 'File with the token of the workload, relative to this one.' },
        authority: { ...text, description: 'https://login.microsoftonline.com unless said otherwise.' },
        scope: {
          ...text,
          default: 'https://cognitiveservices.azure.com/.default',
          examples: ['https://ai.azure.com/.default'],
          description: 'What the token is for.'
        }
      }
    },
    aws: {
      type: 'object',
      required: ['region'],
      description:
        "Keys of AWS's default chain (environment, profiles, SSO, web identity, containers, machines), with which requests are signed. Needs the package @aws-sdk/credential-providers.",
      properties: {
        region: { ...text, examples: ['us-east-1'], description: 'The region of the address.' },
        service: { ...text, default: 'bedrock', description: 'The name of the service in signatures.' },
        profile: { ...text, description: 'The profile of the shared files.' },
        role: { ...text, examples: ['arn:aws:iam::123456789012:role/sluice'], description: 'A role to take on.' }
      }
    }
  }
} as const satisfies OptionSchema

type Entry = Exclude<OptionValue<typeof credentialShape>, string>
type Of<K extends keyof Entry> = NonNullable<Entry[K]>

/** The kinds of what changes while the gateway runs. */
export const kinds = ['file', 'command', 'oauth2', 'gcp', 'azure', 'aws'] as const

/** Reads the credential of one channel where it is a map. */
export class CredentialReader {
  readonly #path: Path
  readonly #env: Environment
  readonly #report: Report

  /** `path`: where the credential stands. */
  constructor(path: Path, env: Environment, report: Report) {
    this.#path = path
    this.#env = env
    this.#report = report
  }

  /** Reads it; undefined when it is faulty, which is reported. `header`: what the channel says of it. */
  read(
    entry: Entry,
    family: Parameters<typeof credentialHeader>[0],
    header: string | undefined,
    dialect?: string
  ): LivingCredential | undefined {
    const given = kinds.filter((kind) => entry[kind] !== undefined)
    const [kind] = given
    if (kind === undefined || given.length > 1) {
      this.#report.value(this.#path, `must say one of ${kinds.join(', ')}${kind ? `, not ${given.join(' and ')}` : ''}`)
      return undefined
    }
    if (entry.every !== undefined && kind !== 'command')
      this.#report.key([...this.#path, 'every'], 'is for "command": remove this')
    const source = this.#sourceOf(entry)
    if (!source || !this.#report.sound(...this.#path)) return undefined
    // What these give is a token by its nature, wherever the upstream expects keys.
    if (kind !== 'file' && kind !== 'command') return { source, header: 'authorization', prefix: 'Bearer ' }
    const [name, prefix] = header === undefined ? credentialHeader(family, '', dialect) : [header.toLowerCase(), '']
    return { source, header: name, prefix }
  }

  #sourceOf({ file, command, every, oauth2, gcp, azure, aws }: Entry): CredentialSource | undefined {
    if (file !== undefined) return this.#file(file)
    if (command !== undefined) return this.#command(command, every ?? 300_000)
    if (oauth2) return this.#oauth2(oauth2)
    if (gcp) return this.#gcp(gcp)
    return azure ? this.#azure(azure) : this.#aws(aws!)
  }

  #file(name: string): FileSource {
    return { kind: 'file', file: this.#existing(['file'], name) }
  }

  #command(command: Of<'command'>, every: number): CommandSource {
    return { kind: 'command', command, every, folder: resolve(this.#report.folder(this.#path)) }
  }

  #oauth2({ token_url: url, client_id, client_secret, client_auth, scope, parameters }: Of<'oauth2'>): Oauth2Source {
    this.#address(['oauth2', 'token_url'], url)
    return {
      kind: 'oauth2',
      tokenUrl: url,
      clientId: client_id,
      clientSecret: client_secret,
      clientAuth: client_auth,
      scope,
      parameters
    }
  }

  #gcp({ credentials, scope, hosts }: Of<'gcp'>): GcpSource {
    const env = this.#env
    const named = credentials ?? env['GOOGLE_APPLICATION_CREDENTIALS']
    const folder = env['CLOUDSDK_CONFIG'] ?? join(env['HOME'] ?? '/', '.config', 'gcloud')
    const usual = join(folder, 'application_default_credentials.json')
    const from =
      named !== undefined && named !== ''
        ? this.#existing(credentials === undefined ? ['gcp'] : ['gcp', 'credentials'], named)
        : existsSync(usual)
          ? usual
          : undefined
    return { kind: 'gcp', file: from, scope, hosts, metadata: env['GCE_METADATA_HOST'] ?? '169.254.169.254' }
  }

  #azure(entry: Of<'azure'>): AzureSource | undefined {
    const env = this.#env
    const { scope } = entry
    const clientId = entry.client_id ?? env['AZURE_CLIENT_ID']
    const tenant = entry.tenant ?? env['AZURE_TENANT_ID']
    const clientSecret = entry.client_secret ?? env['AZURE_CLIENT_SECRET']
    const tokenFile = entry.token_file ?? env['AZURE_FEDERATED_TOKEN_FILE']
    const endpoint = env['IDENTITY_ENDPOINT']
    const header = env['IDENTITY_HEADER']
    const base = { kind: 'azure', scope, clientId } as const
    if (clientSecret === undefined && tokenFile === undefined) {
      if (endpoint !== undefined && header !== undefined) return { ...base, by: { kind: 'app', endpoint, header } }
      const host = env['AZURE_POD_IDENTITY_AUTHORITY_HOST'] ?? 'http://169.254.169.254'
      return {
        ...base,
        by: { kind: 'machine', endpoint: `${host.replace(/\/+$/, '')}/metadata/identity/oauth2/token` }
      }
    }
    for (const [name, value] of Object.entries({ tenant, client_id: clientId }))
      if (value === undefined)
        this.#report.key([...this.#path, 'azure'], `"${name}" is missing, without which there is no token`)
    const authority = entry.authority ?? env['AZURE_AUTHORITY_HOST'] ?? 'https://login.microsoftonline.com'
    this.#address(['azure', ...(entry.authority === undefined ? [] : ['authority'])], authority)
    if (tenant === undefined) return undefined
    const tokenUrl = `${authority.replace(/\/+$/, '')}/${encodeURIComponent(tenant)}/oauth2/v2.0/token`
    if (clientSecret !== undefined) return { ...base, by: { kind: 'secret', tokenUrl, clientSecret } }
    const from = this.#existing(['azure', ...(entry.token_file === undefined ? [] : ['token_file'])], tokenFile!)
    return { ...base, by: { kind: 'workload', tokenUrl, file: from } }
  }

  #aws({ region, service, profile, role }: Of<'aws'>): AwsSource {
    const command = missingLibrary()
    if (command !== undefined)
      this.#report.key(
        [...this.#path, 'aws'],
        `needs a package that is not installed: run \`${command}\` in the folder of the gateway`
      )
    return { kind: 'aws', region, service, profile, role }
  }

  /** The path of a file, which has to be there and hold something. It is read again whenever it changes. */
  #existing(place: readonly string[], name: string): string {
    const path = resolve(this.#report.folder([...this.#path, ...place]), name)
    const { bytes, fault } = new Files().read(path)
    const wrong = fault ?? (/^\s*$/.test(bytes!.toString('latin1')) ? 'is empty' : undefined)
    if (wrong !== undefined) this.#report.value([...this.#path, ...place], `${path}: ${wrong}`)
    return path
  }

  #address(place: readonly string[], address: string): void {
    const path = [...this.#path, ...place]
    const url = URL.canParse(address) ? new URL(address) : undefined
    if (!url || !/^https?:$/.test(url.protocol) || url.username !== '' || url.password !== '' || url.hash !== '')
      this.#report.value(path, 'must be an address like https://login.example.com/oauth2/token')
    else if (url.protocol === 'http:' && !isLocal(url.hostname.replace(/^\[|\]$/g, '')))
      this.#report.warn(path, 'secrets go there in clear: write https:// unless the network is trusted')
  }
}
