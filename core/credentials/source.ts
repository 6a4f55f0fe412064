// Where credentials come from that change while the gateway runs, as gateway.yaml says it.
import { hash } from 'node:crypto'

/** A file with the credential, which others replace. */
export interface FileSource {
  readonly kind: 'file'
  /** An absolute path. */
  readonly file: string
}

/** A program that prints the credential. */
export interface CommandSource {
  readonly kind: 'command'
  /** The program and its arguments; no shell reads them. */
  readonly command: readonly string[]
  /** Milliseconds between two runs. */
  readonly every: number
  /** The folder that it runs in. */
  readonly folder: string
}

/** The grant `client_credentials` of OAuth 2.0 (RFC 6749 section 4.4). */
export interface Oauth2Source {
  readonly kind: 'oauth2'
  readonly tokenUrl: string
  readonly clientId: string
  readonly clientSecret: string
  /** How the client says who it is: in a header, or in the form. */
  readonly clientAuth: 'basic' | 'post'
  readonly scope: string | undefined
  /** More members of the form. */
  readonly parameters: Readonly<Record<string, string>>
}

/** Application default credentials of Google. */
export interface GcpSource {
  readonly kind: 'gcp'
  /** A file with credentials; without one the metadata server is asked. */
  readonly file: string | undefined
  readonly scope: string
  /** Hosts beside those of Google that the file may send something to. */
  readonly hosts: readonly string[]
  /** The host of the metadata server, with its port. */
  readonly metadata: string
}

/** Tokens of Microsoft Entra. */
export interface AzureSource {
  readonly kind: 'azure'
  readonly scope: string
  readonly clientId: string | undefined
  /** How a token is come by: a client's secret, a file with a token that is exchanged, or a server of the platform. */
  readonly by:
    | { readonly kind: 'secret'; readonly tokenUrl: string; readonly clientSecret: string }
    | { readonly kind: 'workload'; readonly tokenUrl: string; readonly file: string }
    | { readonly kind: 'app'; readonly endpoint: string; readonly header: string }
    | { readonly kind: 'machine'; readonly endpoint: string }
}

/** Keys that requests are signed with, from the default chain of the vendor's library. */
export interface AwsSource {
  readonly kind: 'aws'
  readonly region: string
  /** The name that signatures have for the service. */
  readonly service: string
  readonly profile: string | undefined
  /** The ARN of a role to take on. */
  readonly role: string | undefined
}

/** A source of credentials. One is made per channel and reading of the file; equal ones share what they get. */
export type CredentialSource = FileSource | CommandSource | Oauth2Source | GcpSource | AzureSource | AwsSource

/** A credential that changes, and the header that it travels in; the sources that sign have headers of their own. */
export interface LivingCredential {
  readonly source: CredentialSource
  /** In lower case. */
  readonly header: string
  /** Stands before the credential in the header: `Bearer `, or nothing. */
  readonly prefix: string
}

/** What tells a source from all others, its secrets included, as a digest. */
export function keyOf(source: CredentialSource): string {
  return hash('sha256', JSON.stringify(source))
}

const secrets = new Set(['clientSecret', 'header', 'clientAuth', 'every'])

/** Whose credentials they are: the same after a secret of the source was replaced. It has no secrets. */
export function ownerOf(source: CredentialSource): string {
  return JSON.stringify(source, (name, value: unknown) => (secrets.has(name) ? undefined : value))
}
