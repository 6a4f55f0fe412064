// Decimal numbers of prices, from text to integers and back.

/** A thousand dollars a unit, which is as much as gateway.yaml takes. */
const highest = 10n ** 18n

/**
 * Nano-dollars per million units, of dollars a unit as they are written (`1.25e-06`); `exact` is false when there were
 * more digits, which were rounded half up. Undefined for what is no such number, is negative or is above a thousand
 * dollars.
 */
export function exactly(value: unknown): { value: bigint; exact: boolean } | undefined {
  const [, whole, fraction = '', exponent = '0'] =
    /^(\d{1,40})(?:\.(\d{1,40}))?(?:e([+-]?\d{1,3}))?$/i.exec(typeof value === 'string' ? value.trim() : '') ?? []
  if (whole === undefined) return undefined
  const digits = BigInt(whole + fraction)
  const shift = 15 - fraction.length + Number(exponent)
  const divisor = 10n ** BigInt(Math.max(0, -shift))
  const scaled = digits * 10n ** BigInt(Math.max(0, shift))
  const rate = (scaled + divisor / 2n) / divisor
  return rate > highest ? undefined : { value: rate, exact: scaled % divisor === 0n }
}

/** An amount with that many decimals, for YAML: in quotes when a number could not hold its digits. */
export function written(rate: bigint, decimals: number): string {
  const digits = rate.toString().padStart(decimals + 1, '0')
  const text = `${digits.slice(0, -decimals)}.${digits.slice(-decimals)}`.replace(/\.?0+$/, '')
  return text.replace(/^0\.0*|\./g, '').length > 15 ? `"${text}"` : text
}
