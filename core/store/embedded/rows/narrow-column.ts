// A column of numbers as bytes, as narrow as its values let it be.

/**
 * How a column is written: a value is `(base + written) / scale`, and what is written takes `width` bytes: none where
 * all values are the same, and eight where they are written as they are.
 */
export interface Shape {
  readonly width: 0 | 1 | 2 | 4 | 8
  readonly base: number
  readonly scale: number
}

const arrays = { 1: Uint8Array, 2: Uint16Array, 4: Uint32Array, 8: Float64Array } as const

/** Whole numbers, and such as have up to three digits behind the point. */
const scales = [1, 10, 100, 1000] as const

/** The length of a shape as bytes. */
export const shapeBytes = 16

/** Writes values as bytes, without their shape. */
export function narrowed(values: readonly number[]): { readonly shape: Shape; readonly bytes: Buffer } {
  for (const scale of scales) {
    const bounds = wholeBounds(values, scale)
    if (!bounds) continue
    const [base, most] = bounds
    const range = most - base
    const width = range === 0 ? 0 : range < 2 ** 8 ? 1 : range < 2 ** 16 ? 2 : range < 2 ** 32 ? 4 : 8
    if (width === 8) break
    return { shape: { width, base, scale }, bytes: bytesOf(values, width, base, scale) }
  }
  return { shape: { width: 8, base: 0, scale: 1 }, bytes: bytesOf(values, 8, 0, 1) }
}

/** The least and the greatest of values times `scale`; undefined where these are not all whole numbers. */
function wholeBounds(values: readonly number[], scale: number): [least: number, most: number] | undefined {
  let [least, most] = [Infinity, -Infinity]
  for (const value of values) {
    const whole = Math.round(value * scale)
    if (!Number.isSafeInteger(whole) || whole / scale !== value) return undefined
    if (whole < least) least = whole
    if (whole > most) most = whole
  }
  return [least, most]
}

function bytesOf(values: readonly number[], width: Shape['width'], base: number, scale: number): Buffer {
  if (width === 0) return Buffer.alloc(0)
  const written = new arrays[width](values.length)
  for (let i = 0; i < values.length; i++) written[i] = width === 8 ? values[i]! : Math.round(values[i]! * scale) - base
  return Buffer.from(written.buffer)
}

export function writeShape(bytes: Buffer, { width, base, scale }: Shape, at: number): void {
  bytes.writeDoubleLE(base, at)
  bytes.writeUInt32LE(scale, at + 8)
  bytes.writeUInt32LE(width, at + 12)
}

export function readShape(view: DataView, at: number): Shape {
  return {
    width: view.getUint32(at + 12, true) as Shape['width'],
    base: view.getFloat64(at, true),
    scale: view.getUint32(at + 8, true)
  }
}

/** Reads a column of `count` values, which begins at a multiple of its width: returns what gives each by its row. */
export function columnAt(
  buffer: ArrayBuffer,
  at: number,
  count: number,
  { width, base, scale }: Shape
): (row: number) => number {
  if (width === 0) return () => base / scale
  const written = new arrays[width](buffer, at, count)
  return base === 0 && scale === 1 ? (row) => written[row]! : (row) => (base + written[row]!) / scale
}
