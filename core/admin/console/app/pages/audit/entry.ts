// An entry of the audit log.

/** An entry as the API shows it. Actors of one tenant do not see all of it. */
export interface Entry {
  readonly seq?: number
  readonly time: string
  readonly action: string
  readonly actor_kind: string
  readonly actor: string
  readonly actor_name?: string | null
  readonly actor_role?: string
  readonly address?: string | null
  readonly request_id?: string | null
  readonly object_kind: string
  readonly object: string
  readonly tenant?: string | null
  readonly outcome?: 'done' | 'refused'
  readonly before: Readonly<Record<string, unknown>> | null
  readonly after: Readonly<Record<string, unknown>> | null
  readonly why?: string
  readonly times?: number
  readonly hash?: string
}
