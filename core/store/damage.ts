// What is said of a store whose files are not as they were left.

/** Something that is not as it was left. */
export interface Damage {
  file: string
  /** What is wrong with it, to be read behind its name. */
  text: string
  /** The database itself is not of one moment. */
  unsound?: true
}

/** A store that cannot start as it is. */
export class DamagedStore extends Error {
  constructor(file: string, damage: readonly Damage[]) {
    const all = damage.map(({ file: path, text }) => `${path} ${text}`).join('; ')
    super(
      `${all}. Charges may be lost, so nothing was changed: run \`sluice ledger repair --db ${file}\`, which shows first what can be saved`
    )
  }
}
