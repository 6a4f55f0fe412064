// The files of the console by name, with the page that loads them. A browser can get what is listed here, and nothing
// else: no name is ever joined to a path.
import type { Asset } from './asset.ts'
import type { Shell } from './shell.ts'

/** Files that can be sent. */
export interface Shelf {
  /**
   * The page as it is for a place, whose modules it loads with the rest at once; for no place with ''. What changed on
   * the disk since is made anew.
   */
  shell(place: string): Promise<Shell>
  /** A file by what follows `/console/` in its address. */
  find(name: string): Promise<Asset | undefined>
}
