// Opens the store that a configuration names, of whichever kind it is.
import type { StoreSettings } from '../catalogue/settings.ts'
import type { Logger } from '../telling/log.ts'
import { Custody } from './custody.ts'
import { Membership } from './membership.ts'
import type { Estate } from './messages.ts'
import type { Opened } from './opened.ts'

/**
 * Opens it. `estate`: what the process has left whose place this one takes.
 * @throws Error when it cannot be opened
 */
export function openPlace(settings: StoreSettings, estate: Estate | undefined, log: Logger): Promise<Opened> {
  return settings.sqlite === undefined ? Membership.open(settings, log) : Custody.open(settings, estate, log)
}
