// The process that makes a regular backup: `node backup-process.ts <JSON>`. A process of its own can be ended at once,
// and has a low priority. It prints one line of JSON.
import { backupsIn, makeBackup } from './backup-folder.ts'
import type { KeptBackup, RegularBackup } from './backup-folder.ts'
import { explain } from '../files/troubles.ts'

/** What is asked of the process. Without `keep` it only looks which backup is the newest. */
export interface BackupTask {
  file: string
  folder: string
  keep?: number
}

/** Its answer. */
export type BackupAnswer = { made: RegularBackup } | { newest: KeptBackup | null } | { error: string }

async function answerTo({ file, folder, keep }: BackupTask): Promise<BackupAnswer> {
  try {
    if (keep === undefined) return { newest: backupsIn(folder, file)[0] ?? null }
    return { made: await makeBackup(folder, file, keep, Date.now()) }
  } catch (error) {
    return { error: explain(error, folder).message }
  }
}

process.stdout.write(`${JSON.stringify(await answerTo(JSON.parse(process.argv[2]!) as BackupTask))}\n`)
