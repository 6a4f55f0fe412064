// A picture, independent of its format.

/** A picture of one colour. */
export interface Picture {
  width: number
  height: number
  /** Decides the colour: at least six hexadecimal digits. */
  digest: string
}

/** Red, green and blue, each from 0 to 255. */
export function colourOf({ digest }: Picture): [red: number, green: number, blue: number] {
  const value = Number.parseInt(digest.slice(0, 6), 16)
  return [value >> 16, (value >> 8) & 0xff, value & 0xff]
}
