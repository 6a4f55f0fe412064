// The repair of a store whose journal is in segments: a database that does not fit the journal is made anew from it.
import { Committer } from '../database/committer.ts'
import { makeReadSide } from '../database/read-side.ts'
import { migrate } from '../database/migration.ts'
import type { Damage } from '../files/damage.ts'
import { openDatabase } from '../files/sqlite.ts'
import { volumeFolder } from '../journal/volume.ts'
import { unfitness } from '../recovery/fitness.ts'
import type { Batch } from '../rows/batch.ts'
import { framesBehind } from '../segments/frames.ts'
import { lastBatch, surveyJournal } from '../segments/journal-survey.ts'
import { Indexing } from '../writer/indexing.ts'
import type { Reached } from './tell.ts'

/** How many batches are brought into the database between two reports of progress. */
const stride = 1024

/**
 * Says why the database does not fit the journal, if it does not.
 * @throws Error when what is damaged is the journal, of which only a backup has another copy
 */
export function damageBeside(file: string): Damage | undefined {
  const found = surveyJournal(volumeFolder(file))
  const unfit = unfitness(file, found, lastBatch(found))
  const wrong = found.damage[0] ?? (unfit?.ahead === true ? unfit : undefined)
  if (wrong)
    throw new Error(
      `${wrong.file} ${wrong.text}. What is missing of a journal is nowhere else: bring back a backup (\`sluice ledger backup\` makes them); nothing was changed`
    )
  return unfit
}

/** The batches of a journal, from the first one on. */
export function* batchesOfJournal(file: string): Generator<Batch> {
  for (const { batch } of framesBehind(surveyJournal(volumeFolder(file)), 0)) yield batch
}

/** How many batches a journal has. */
export function batchesInJournal(file: string): number {
  return lastBatch(surveyJournal(volumeFolder(file)))
}

/** Makes the database anew, where there is none. Killed meanwhile, the next start goes on with it. */
export function makeAnew(file: string, reached: Reached): void {
  const found = surveyJournal(volumeFolder(file))
  const database = openDatabase(file, 'power', (opened) => {
    migrate(opened, file)
    makeReadSide(opened)
  })
  try {
    const committer = new Committer(database)
    committer.alter(() => {})
    const indexing = new Indexing(committer)
    for (const frame of framesBehind(found, 0)) {
      const { batch } = frame
      indexing.take(frame)
      if (batch.number % stride === 0) reached(batch.number, lastBatch(found))
    }
    indexing.end()
  } finally {
    database.close()
  }
}
