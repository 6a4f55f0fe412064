// Where the code of each page is. A page is loaded when somebody goes there.
import type { FunctionComponent } from './html.ts'

/** The module of a page: it draws itself from the address and the API. */
export interface PageModule {
  readonly default: FunctionComponent
}

/** How to load the page of each place in places.ts. */
const pages: Readonly<Record<string, () => Promise<PageModule>>> = {
  audit: () => import('./pages/audit/audit.ts'),
  configuration: () => import('./pages/configuration/configuration.ts'),
  ledger: () => import('./pages/ledger/ledger.ts'),
  models: () => import('./pages/models/models.ts'),
  requests: () => import('./pages/requests/requests.ts'),
  playground: () => import('./pages/playground/playground.ts'),
  overview: () => import('./pages/overview/overview.ts'),
  channels: () => import('./pages/channels/channels.ts'),
  spend: () => import('./pages/spend/spend.ts'),
  keys: () => import('./pages/keys/keys.ts'),
  tenants: () => import('./pages/tenants/tenants.ts'),
  operators: () => import('./pages/operators/operators.ts'),
  sessions: () => import('./pages/sessions/sessions.ts'),
  chain: () => import('./pages/chain/chain.ts')
}

const loaded = new Map<string, FunctionComponent>()

/** The page of a place, when its code is there. */
export function loadedPage(place: string): FunctionComponent | undefined {
  return loaded.get(place)
}

/**
 * Loads the page of a place; undefined for none.
 * @throws TypeError when its code does not come
 */
export async function loadPage(place: string): Promise<FunctionComponent | undefined> {
  const page = Object.hasOwn(pages, place) ? (await pages[place]!()).default : undefined
  if (page) loaded.set(place, page)
  return page
}
