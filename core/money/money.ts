// Money as integers: nano-dollars in BigInt, parsed from decimals without ever passing through a float.

/** 10⁻⁹ US dollars. Branded so that a token count cannot be taken for money. */
export type Nano = bigint & { readonly unit?: 'nano-dollar' }

const decimal = /^(\d{1,12})(?:\.(\d{1,15}))?(?:e([+-]?\d{1,2}))?$/i

/**
 * Reads a decimal dollar amount (`"1.25"`, `0.0375`, `1e-7`) as an integer at `scale` decimals of a dollar (9 = nano).
 * Returns undefined when it is not a plain non-negative decimal or carries more digits than the scale can hold.
 */
export function parseDollars(value: string | number, scale = 9): bigint | undefined {
  const match = decimal.exec(String(value).trim())
  if (!match) return undefined
  const fraction = match[2] ?? ''
  const shift = scale - fraction.length + Number(match[3] ?? 0)
  const digits = BigInt(match[1]! + fraction)
  if (shift >= 0) return digits * 10n ** BigInt(shift)
  const divisor = 10n ** BigInt(-shift)
  return digits % divisor === 0n ? digits / divisor : undefined
}

/** Nano-dollars as a decimal string without trailing zeros: `1250000n` → `"0.00125"`. */
export function formatDollars(nano: bigint): string {
  const sign = nano < 0n ? '-' : ''
  const digits = (nano < 0n ? -nano : nano).toString().padStart(10, '0')
  const point = digits.length - 9
  let end = digits.length
  while (end > point && digits.charCodeAt(end - 1) === 0x30) end--
  return sign + digits.slice(0, point) + (end > point ? `.${digits.slice(point, end)}` : '')
}
