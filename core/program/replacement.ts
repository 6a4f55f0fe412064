// Replaces files of the configuration together, keeps what they were aside, and takes it all back when it is not used.
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, realpathSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { chmodSync, chownSync } from 'node:fs'
import { dirname } from 'node:path'
import { Files } from '../../config/files/files.ts'
import type { ReloadResult } from './reload.ts'

/** Why no file was replaced: one cannot be written, or is not what it should be. The message is for people. */
export class ReplacementRefused extends Error {
  override readonly name = 'ReplacementRefused'
}

/** What became of one file. */
export interface Replaced {
  readonly file: string
  /** `taken out`: it stands in an included folder, and the configuration that is put there does not have it. */
  readonly done: 'written' | 'made' | 'taken out'
  /** Where the file is now that was there before; null when none was, or it is not kept. */
  readonly aside: string | null
}

/** The result. `files`: those that were touched; what is the same as then is not. */
export interface ReplacedReload extends ReloadResult {
  readonly files: readonly Replaced[]
}

/** A file that is to have a text, or to be no more. */
export interface Wanted {
  readonly file: string
  readonly text: string | undefined
  /** What it must have until then; undefined: anything. */
  readonly was?: string
}

/**
 * Gives the files what is wanted, the first of which is gateway.yaml, and calls `reload`. When that is refused, all is
 * as before, except for files that somebody has changed meanwhile: those stay, and are named. `keep`: whether what was
 * there stays aside afterwards.
 * @throws ReplacementRefused when a file cannot be written; then all is as before
 */
export async function replaceAndReload(
  wanted: readonly [Wanted, ...Wanted[]],
  reload: () => Promise<ReloadResult>,
  keep: boolean
): Promise<ReplacedReload> {
  const replacement = new Replacement()
  try {
    replacement.put(wanted)
  } catch (error) {
    replacement.undo()
    throw new ReplacementRefused(
      `${wanted[0].file} cannot be replaced (${(error as Error).message}): put the file back where it comes from, and reload.`
    )
  }
  const result = await reload()
  if (!result.ok) replacement.undo()
  else if (!keep) replacement.forget()
  return { ...result, files: replacement.files }
}

/**
 * The bytes of a file; undefined when there is none.
 * @throws Error when something else is in its place, or it cannot be read
 */
function contentOf(file: string): Buffer | undefined {
  if (!existsSync(file)) return undefined
  const { bytes, fault } = new Files().read(file)
  if (!bytes) throw new Error(`${file}: ${fault}`)
  return bytes
}

/** Where a file is, wherever links lead; its own path when there is none. */
function targetOf(file: string): string {
  return existsSync(file) ? realpathSync(file) : file
}

/** A step that was done. `undo` returns false, and changes nothing, when somebody has changed the file since. */
interface Step {
  readonly said: Replaced
  undo(): boolean
}

/** Who may do what with a file; without an owner, whoever runs the gateway is. */
interface Rights {
  readonly mode: number
  readonly uid?: number
  readonly gid?: number
}

/** The rights of files that are made when there is no gateway.yaml whose rights they could have. */
const ownersOnly: Rights = { mode: 0o600 }

/** Files that are replaced together. */
class Replacement {
  #steps: Step[] = []

  get files(): readonly Replaced[] {
    return this.#steps.map(({ said }) => said)
  }

  /**
   * Gives the files what is wanted. Everything is written beside them first, so that what takes long, or fails, comes
   * before the first is replaced.
   * @throws Error of the file system; then `undo` is due
   */
  put(wanted: readonly [Wanted, ...Wanted[]]): void {
    const [main] = wanted
    const usual = existsSync(main.file) ? statSync(main.file) : ownersOnly
    const fresh: string[] = []
    const steps: (() => Step)[] = []
    try {
      for (const { file, text, was } of wanted) {
        const before = contentOf(file)
        if (was !== undefined && !before?.equals(Buffer.from(was))) throw changed(file)
        if (text === undefined) {
          if (before) steps.push(() => takeOut(file, before))
          continue
        }
        if (before?.equals(Buffer.from(text))) continue
        const target = targetOf(file)
        const rights = before ? statSync(target) : usual
        mkdirSync(dirname(target), { recursive: true })
        if (before) fresh.push(stage(asideOf(target, before), before, rights))
        fresh.push(stage(target, text, rights))
        steps.push(() => put({ file, target, text, before }))
      }
      for (const step of steps) this.#steps.push(step())
    } finally {
      for (const path of fresh) rmSync(path, { force: true })
    }
  }

  /** Removes what is kept aside, which is kept elsewhere as well. Where that fails it stays, and is named. */
  forget(): void {
    this.#steps = this.#steps.map((step) => {
      const { aside } = step.said
      if (aside === null) return step
      try {
        rmSync(aside)
        return { ...step, said: { ...step.said, aside: null } }
      } catch {
        return step
      }
    })
  }

  /**
   * Puts back what was there, where nobody has changed it since. It goes on after an error, and throws the first at the
   * end.
   */
  undo(): void {
    const errors: unknown[] = []
    const left: Step[] = []
    for (const step of this.#steps.toReversed()) {
      try {
        if (!step.undo()) left.unshift(step)
      } catch (error) {
        errors.push(error)
      }
    }
    this.#steps = left
    if (errors.length > 0) throw errors[0]
  }
}

function changed(file: string): Error {
  return new Error(`${file} was changed meanwhile`)
}

/** What a file is to have, and has. */
interface Put {
  readonly file: string
  readonly target: string
  readonly text: string
  readonly before: Buffer | undefined
}

/**
 * Puts what was staged for a file into its place, unless somebody has changed it while that was written, which a disk
 * may take its time for. Undoing it writes nothing: the disk may be full.
 */
function put({ file, target, text, before }: Put): Step {
  const now = contentOf(target)
  if (before ? !now?.equals(before) : now) throw changed(file)
  const aside = before ? asideOf(target, before) : null
  if (aside !== null) renameSync(freshOf(aside), aside)
  try {
    renameSync(freshOf(target), target)
  } catch (error) {
    if (aside !== null) rmSync(aside, { force: true })
    throw error
  }
  const undo = (): boolean => {
    if (!contentOf(target)?.equals(Buffer.from(text))) return false
    if (aside === null) rmSync(target)
    else renameSync(aside, target)
    return true
  }
  return { said: { file, done: aside === null ? 'made' : 'written', aside }, undo }
}

function takeOut(file: string, before: Buffer): Step {
  const aside = asideOf(file, before)
  renameSync(file, aside)
  const undo = (): boolean => {
    if (existsSync(file)) return false
    renameSync(aside, file)
    return true
  }
  return { said: { file, done: 'taken out', aside }, undo }
}

/** The name under which a content is kept beside its file. Folders that are included take no file of that name. */
function asideOf(target: string, content: Buffer): string {
  return `${target}.${createHash('sha256').update(content).digest('hex').slice(0, 12)}`
}

/** A name that nobody else gives to a file, so that what lies there is the rest of a replacement that was killed. */
function freshOf(target: string): string {
  return `${target}.sluice-new`
}

/** Writes what is to be in the place of a file beside it, with rights like these, and returns its path. */
function stage(target: string, content: string | Buffer, rights: Rights): string {
  const fresh = freshOf(target)
  rmSync(fresh, { force: true })
  try {
    writeFileSync(fresh, content, { mode: ownersOnly.mode, flag: 'wx', flush: true })
    chmodSync(fresh, give(fresh, rights))
  } catch (error) {
    // A full disk leaves a part of it.
    rmSync(fresh, { force: true })
    throw error
  }
  return fresh
}

/**
 * Gives a file to an owner and a group, as far as this user may, and returns the mode that it may have then: the rights
 * of a group are not for another one.
 */
function give(file: string, { mode, uid, gid }: Rights): number {
  const own = statSync(file)
  for (const owner of [uid ?? own.uid, own.uid]) {
    try {
      chownSync(file, owner, gid ?? own.gid)
      return mode & 0o777
    } catch {
      // Another owner is for root to give, and a group for who is in it.
    }
  }
  return mode & 0o707
}
