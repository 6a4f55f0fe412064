// Numbers with their units. One formatter for each form, as making them is slow.
const plain = new Intl.NumberFormat('en-US')
const compact = new Intl.NumberFormat('en-US', { notation: 'compact', maximumSignificantDigits: 3 })
const three = new Intl.NumberFormat('en-US', { maximumSignificantDigits: 3 })
const percents = new Intl.NumberFormat('en-US', { style: 'percent', maximumFractionDigits: 1 })

/** A count with all its digits: `1,204,311`. */
export const counted = (value: number): string => plain.format(value)
/** A count in short: `1.2M`. */
export const short = (value: number): string => (Math.abs(value) < 10_000 ? plain.format(value) : compact.format(value))
/** A share of one as percent: `3.1 %`. */
export const percent = (value: number): string => percents.format(value).replace('%', ' %')
/** A rate: `12.3/s`. */
export const perSecond = (value: number): string => `${three.format(value)}/s`

/** Milliseconds: `230 ms`, `4.2 s`, `3 min 5 s`, `2 h 10 min`. */
export function duration(ms: number): string {
  if (ms < 1000) return `${three.format(ms)} ms`
  if (ms < 60_000) return `${three.format(ms / 1000)} s`
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
  return `${three.format(value)} ${units[place]!}`
}
