// Who runs a request in the place of a client: somebody who uses the admin API, with a key of their choice.

/** Whoever runs a request from the playground. */
export interface Sponsor {
  /** What kind of actor it is, and what tells it from others of its kind, as the audit log has them. */
  readonly kind: string
  readonly id: string
  /** The SHA-256 of the key with which it runs, in the place of a key in the request's headers. */
  readonly key: Buffer
}
