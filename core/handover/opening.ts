// Opens the store that a configuration names, of whichever kind it is.
import type { StoreSettings } from '../catalogue/settings.ts'
import type { Logger } from '../telling/log.ts'
import { Custody } from './custody.ts'
import type { Estate } from './messages.ts'
import type { Opened } from './opened.ts'

/**
 * Opens it. `estate`: what the process has left whose place this one takes.
 * @throws Error when it cannot be opened
 */
export async function openPlace(settings: StoreSettings, estate: Estate | undefined, log: Logger): Promise<Opened> {
  if (settings.sqlite !== undefined) return Custody.open(settings, estate, log)
  // A gateway of one machine starts without what only shared stores need.
  const { Membership } = await import('./membership.ts')
  return Membership.open(settings, log)
}
