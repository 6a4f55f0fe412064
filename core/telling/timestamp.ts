// The text of a time, as records have it.

let latest = NaN
let text = ''
let second = NaN
let secondText = ''

/**
 * RFC 3339 in UTC, with milliseconds, of a time up to the end of the year 9999. The latest text is kept, as several ask
 * for that of one exchange, and so is that of its second, which saves a microsecond per exchange.
 */
export function timestamp(ms: number): string {
  if (ms === latest) return text
  const part = ms % 1000
  if (ms - part !== second) {
    second = ms - part
    secondText = new Date(second).toISOString().slice(0, -4)
  }
  latest = ms
  return (text = `${secondText}${part < 10 ? '00' : part < 100 ? '0' : ''}${part}Z`)
}
