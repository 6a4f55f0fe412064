// The files of the console by name, with the page that loads them. A browser can get what is listed here, and nothing
// else: no name is ever joined to a path.
import type { Asset } from './asset.ts'
import type { Shell } from './shell.ts'

/** Files that can be sent. */
export interface Shelf {
  /** The page, which loads the rest. What changed on the disk since is made anew. */
  shell(): Promise<Shell>
  /** A file by what follows `/console/` in its address. */
  find(name: string): Promise<Asset | undefined>
}
