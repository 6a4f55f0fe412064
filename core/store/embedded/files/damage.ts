// How damage to the files of a store is described.

/** One finding about one file. */
export interface Damage {
  file: string
  /** What is wrong, as the rest of a sentence that begins with the file's name. */
  text: string
  /** Set when the database's own pages are damaged or do not belong together. */
  unsound?: true
}

/** Thrown when a store, or a backup of one, cannot be used because its files are damaged. */
export class DamagedStore extends Error {
  override readonly name = 'DamagedStore'

  /** The error of a start: its message names the findings and the remedy. */
  static of(file: string, damage: readonly Damage[]): DamagedStore {
    const all = damage.map(({ file: path, text }) => `${path} ${text}`).join('; ')
    return new DamagedStore(
      `${all}. Charges may be lost, so nothing was changed: run \`sluice ledger repair --db ${file}\`, which shows first what can be saved`
    )
  }
}
