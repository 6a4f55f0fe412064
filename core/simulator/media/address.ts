// Addresses of pictures. The address holds everything about a picture, so that the simulator need not keep it.
import type { Picture } from './picture.ts'

const name = /^([0-9a-f]{40})-([1-9]\d{0,3})x([1-9]\d{0,3})\.(\w+)$/

/** The address under which the simulator serves a picture. */
export function pictureAddress(origin: string, { digest, width, height }: Picture, format: string): string {
  return `${origin}/files/${digest}-${width}x${height}.${format}`
}

/** The picture that the last segment of an address describes; undefined when it describes none. */
export function pictureAt(segment: string): { picture: Picture; format: string } | undefined {
  const [, digest, width, height, format] = name.exec(segment) ?? []
  if (digest === undefined || format === undefined) return undefined
  return { picture: { digest, width: Number(width), height: Number(height) }, format }
}
