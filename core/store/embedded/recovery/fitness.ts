// Whether a database is one that a journal in segments can go on with: all that it has is in the journal.
import type { Damage } from '../files/damage.ts'
import { volumeFolder } from '../journal/volume.ts'
import { historyAt } from '../segments/frames.ts'
import type { Sources } from '../segments/frames.ts'
import { survey } from './survey.ts'

/** Why a database does not fit. */
export interface Unfit extends Damage {
  /** It has batches behind the end of the journal: what is wrong is the journal. */
  readonly ahead: boolean
}

/** Looks at the database of a store whose journal ends with batch `last`; undefined when it fits, or is not there. */
export function unfitness(file: string, journal: Sources, last: number): Unfit | undefined {
  const { head, damage } = survey(file)
  if (head && head.history !== '' && head.batch > last)
    return {
      file: volumeFolder(file),
      text: `ends with batch ${last}, and ${file} has batch ${head.batch}: the journal is missing, older or has lost its end`,
      ahead: true
    }
  const [found] = damage
  if (found) return { ...found, ahead: false }
  if (!head || head.history === '' || historyAt(journal, head.batch) === head.history) return undefined
  return {
    file,
    text: `has batch ${head.batch} of history ${head.history}, which the journal does not have`,
    ahead: false
  }
}
