// Whose something is that is kept.

/** A project, or what a tenant has outside of them. Nobody else ever finds what is theirs. */
export interface Owner {
  readonly tenant: string
  /** Empty for none. */
  readonly project: string
}
