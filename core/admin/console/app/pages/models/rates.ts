// Prices for people: per million tokens or characters, and per one of anything else.

/** What a unit of each class is called; the others are tokens. */
const units: Readonly<Record<string, string>> = {
  character: '1M characters',
  image: 'picture',
  request: 'call',
  search: 'search',
  second: 'second',
  tool_call: 'call',
  web_search: 'search',
  file_search: 'search',
  code_interpreter: 'call'
}

/** What a rate is for: `1M tokens`, `picture`. */
export function unitOf(name: string): string {
  return units[name] ?? '1M tokens'
}

/** A rate in dollars for what {@link unitOf} says, exactly, of dollars for 1,000,000 units as decimal text. */
export function rateOf(name: string, usdPerMillion: string): string {
  const byMillion = unitOf(name).startsWith('1M')
  return `$${byMillion ? usdPerMillion : millionth(usdPerMillion)}`
}

/** Divides decimal text by a million by moving its point. */
function millionth(text: string): string {
  const [whole = '0', decimals = ''] = text.split('.')
  const digits = whole.padStart(7, '0') + decimals
  const point = Math.max(whole.length, 7) - 6
  return `${digits.slice(0, point).replace(/^0+(?=\d)/, '')}.${digits.slice(point)}`.replace(/\.?0+$/, '')
}
