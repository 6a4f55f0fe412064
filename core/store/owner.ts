// The owner of stored things such as routes and work.

/** A project, or a tenant for what belongs to none of its projects. Only the owner ever finds what it owns. */
export interface Owner {
  readonly tenant: string
  /** Empty when the owner is the tenant itself. */
  readonly project: string
}
