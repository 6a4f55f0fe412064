// The pages that the console has, in the order of the navigation. The server draws the navigation of this list too, so
// it imports nothing.

/** The headings of the navigation, in their order. */
export const groups = ['Now', 'Use', 'Access', 'Gateway', 'Record'] as const

/** A page, or several below one address. */
export interface Place {
  /** The first segment of its address below `/console/`; the page reads the rest itself. */
  readonly path: string
  /** Its name in the navigation and in the title of the window. */
  readonly title: string
  /** Where the navigation has it; absent: it is in the menu of whoever is signed in. */
  readonly group?: (typeof groups)[number]
  /** Whom it is for; absent: all who may come in. `manage` and `operate` mean what they mean for routes of the API. */
  readonly needs?: 'manage' | 'operate'
  /** It is about the whole gateway: actors of one tenant do not see it. */
  readonly whole?: true
  /** What it asks the API for first when its address has no query; of the actor's tenant, for actors of one. */
  readonly asks?: string
}

/** All pages. A page that is not here has no address; where its code is, is in pages.ts. */
export const places: readonly Place[] = [
  { path: 'overview', title: 'Overview', group: 'Now' },
  { path: 'requests', title: 'Requests', group: 'Now', asks: '/admin/v1/requests' },
  { path: 'playground', title: 'Playground', group: 'Use' },
  { path: 'spend', title: 'Spend', group: 'Use' },
  { path: 'keys', title: 'Keys', group: 'Access', asks: '/admin/v1/keys' },
  { path: 'tenants', title: 'Tenants', group: 'Access', asks: '/admin/v1/tenants' },
  { path: 'operators', title: 'Operators', group: 'Access', whole: true, asks: '/admin/v1/operators' },
  { path: 'channels', title: 'Channels', group: 'Gateway', whole: true, asks: '/admin/v1/channels' },
  { path: 'models', title: 'Models and prices', group: 'Gateway', asks: '/admin/v1/models' },
  { path: 'chain', title: 'Chain', group: 'Gateway', whole: true, asks: '/admin/v1/chain' },
  { path: 'configuration', title: 'Configuration', group: 'Gateway', whole: true, asks: '/admin/v1/config' },
  { path: 'audit', title: 'Audit', group: 'Record', asks: '/admin/v1/audit' },
  { path: 'ledger', title: 'Ledger', group: 'Record', whole: true, asks: '/admin/v1/ledger/verify' },
  { path: 'sessions', title: 'Sessions' }
]
