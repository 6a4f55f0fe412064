// A sum of spend as the API shows it.

/** A sum: its groups by name, and its amounts, of which actors of one tenant do not see all. */
export interface Sum extends Readonly<Record<string, unknown>> {
  readonly requests: number
  readonly charge_nano: string
  readonly usage: Readonly<Record<string, number>>
}
