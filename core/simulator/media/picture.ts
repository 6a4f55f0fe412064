// What a picture is to be, whatever it is encoded in.

/** A picture of one colour. */
export interface Picture {
  width: number
  height: number
  /** Decides the colour: hexadecimal digits, six at least. */
  digest: string
}

/** Red, green and blue, each from 0 to 255. */
export function colourOf({ digest }: Picture): [red: number, green: number, blue: number] {
  const value = Number.parseInt(digest.slice(0, 6), 16)
  return [value >> 16, (value >> 8) & 0xff, value & 0xff]
}
