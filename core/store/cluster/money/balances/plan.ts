// What an amount counts in: the balances of a caller's scopes at a time, and the budgets that limit them.
import { tagsOf } from '../../../../catalogue/caller.ts'
import type { Budget, Scope } from '../../../../catalogue/caller.ts'
import { maxNano, smaller } from '../../../embedded/balance/cell.ts'
import { hourOf } from '../../../embedded/balance/hours.ts'
import { day, daysOf, hour, rollingDays, spansOf, windowOf, windowsOf, isHour } from '../../../window.ts'
import type { Span, Spans } from '../../../window.ts'
import type { Share } from '../slices/slices.ts'

/** The name of a balance. */
export interface Place {
  readonly scope: string
  readonly window: string
  /** Of a window that is an hour: which one since 1970. */
  readonly hour: number | null
  /** Unique among all. */
  readonly key: string
}

/** The hours of a scope that a rolling budget adds up. */
export interface Hoursum {
  readonly scope: string
  readonly from: number
  readonly to: number
}

/** A budget, and what counts against it: one balance, or a sum of hours. */
export interface Limit extends Share {
  readonly scope: Scope
  readonly budget: Budget
  readonly of: Place | Hoursum
}

/** What the requests of one caller count in. One is made per caller and UTC day, or hour with rolling budgets. */
export interface Plan {
  readonly scopes: readonly Scope[]
  /** The time that it is of, in Unix milliseconds. `until` is not included. */
  readonly from: number
  readonly until: number
  /** The scopes with their spans and the tags of the caller as JSON, as in the journal; no tags: null. */
  readonly texts: { readonly scopes: string; readonly tags: string | null }
  readonly places: readonly Place[]
  /** The outermost first. */
  readonly limits: readonly Limit[]
  /** The limits that people are shown of balances, by the key of the place. Rolling budgets have a place for that. */
  readonly shown: ReadonlyMap<string, { readonly place: Place; readonly limit: bigint | null }>
  /** Places, and those that are shown. */
  readonly all: readonly Place[]
}

/** Makes plans, and keeps them for as long as they are of the time and the configuration. */
export class Plans {
  readonly #made = new WeakMap<readonly Scope[], Plan>()

  of(scopes: readonly Scope[], time: number): Plan {
    const known = this.#made.get(scopes)
    if (known && time >= known.from && time < known.until) return known
    const plan = planOf(scopes, time)
    this.#made.set(scopes, plan)
    return plan
  }
}

/** The place of a window. */
export function placeOf(scope: string, window: string, time: number): Place {
  return { scope, window, hour: isHour(window) ? hourOf(time) : null, key: `${scope} ${window}` }
}

/** All that an amount counts in, by the spans of its scopes. */
export function placesIn(spans: Readonly<Record<string, Spans>>, time: number): Place[] {
  return Object.entries(spans).flatMap(([scope, own]) =>
    windowsOf(own, time).map((window) => placeOf(scope, window, time))
  )
}

/** The hours of so many days that end with one. */
function hoursumOf(scope: string, days: number, to: number): Hoursum {
  return { scope, from: to - days * 24 + 1, to }
}

/** What has the limit of a budget, by the key of a {@link Limit}, and what counts in it as of an hour. */
export function budgetOf(key: string, hour: number): { readonly place: Place; readonly of: Place | Hoursum } {
  const end = key.lastIndexOf(' ')
  const [scope, window] = [key.slice(0, end), key.slice(end + 1)]
  const place: Place = { scope, window, hour: null, key }
  const days = daysOf(window)
  return { place, of: days === undefined ? place : hoursumOf(scope, days, hour) }
}

/** Whether a sum of hours has a place in it. */
export function includes({ scope, from, to }: Hoursum, place: Place): boolean {
  return place.hour !== null && place.scope === scope && place.hour >= from && place.hour <= to
}

function planOf(scopes: readonly Scope[], time: number): Plan {
  const spans: Record<string, Spans> = {}
  const places: Place[] = []
  const shown = new Map<string, { place: Place; limit: bigint | null }>()
  const limits: Limit[] = []
  let length = day
  for (const scope of scopes) {
    const { id, budgets } = scope
    spans[id] = spansOf(budgets)
    for (const window of windowsOf(spans[id], time)) {
      const place = placeOf(id, window, time)
      places.push(place)
      if (place.hour === null) shown.set(place.key, { place, limit: null })
    }
    for (const budget of budgets) {
      const days = rollingDays(budget.per)
      if (days === undefined) {
        const of = placeOf(id, windowOf(budget.per as Span, time), time)
        shown.set(of.key, { place: of, limit: budget.limit })
        limits.push({ scope, budget, of, key: of.key, limit: smaller(budget.limit, maxNano), hour: 0 })
      } else {
        length = hour
        const to = hourOf(time)
        const place = placeOf(id, budget.per, time)
        shown.set(place.key, { place, limit: budget.limit })
        limits.push({
          scope,
          budget,
          of: hoursumOf(id, days, to),
          key: place.key,
          limit: smaller(budget.limit, maxNano),
          hour: to
        })
      }
    }
  }
  const from = Math.floor(time / length) * length
  const tags = tagsOf(scopes)
  return {
    scopes,
    from,
    until: from + length,
    texts: { scopes: JSON.stringify(spans), tags: tags ? JSON.stringify(tags) : null },
    places,
    limits,
    shown,
    all: [...places, ...Array.from(shown.values(), ({ place }) => place)]
  }
}
