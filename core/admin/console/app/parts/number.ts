// Numbers with their units. One formatter for each form, which are made once.
/** Makes a formatter at its first use: each takes the browser milliseconds, in which nothing is drawn. */
function once(options?: Intl.NumberFormatOptions): (value: number) => string {
  let made: Intl.NumberFormat | undefined
  return (value) => (made ??= new Intl.NumberFormat('en-US', options)).format(value)
}

const plain = once()
const compact = once({ notation: 'compact', maximumSignificantDigits: 3 })
const three = once({ maximumSignificantDigits: 3 })
const percents = once({ style: 'percent', maximumFractionDigits: 1 })

/** A count with all its digits: `1,204,311`. */
export const counted = plain
/** A count in short: `1.2M`. */
export const short = (value: number): string => (Math.abs(value) < 10_000 ? plain(value) : compact(value))
/** A share of one as percent: `3.1 %`. */
export const percent = (value: number): string => percents(value).replace('%', ' %')
/** A rate: `12.3/s`. */
export const perSecond = (value: number): string => `${three(value)}/s`

/** Milliseconds: `230 ms`, `4.2 s`, `3 min 5 s`, `2 h 10 min`. */
export function duration(ms: number): string {
  if (ms < 1000) return `${three(ms)} ms`
  if (ms < 60_000) return `${three(ms / 1000)} s`
  const seconds = Math.round(ms / 1000)
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${seconds % 60} s`
  const minutes = Math.round(seconds / 60)
  return minutes < 2880
    ? `${Math.floor(minutes / 60)} h ${minutes % 60} min`
    : `${Math.floor(minutes / 1440)} d ${Math.floor((minutes % 1440) / 60)} h`
}

/** Bytes: `12.3 kB`. */
export function bytes(value: number): string {
  const units = ['B', 'kB', 'MB', 'GB', 'TB']
  let place = 0
  for (; value >= 1000 && place < units.length - 1; place++) value /= 1000
  return `${three(value)} ${units[place]!}`
}
