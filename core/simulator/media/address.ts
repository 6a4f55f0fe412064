// Addresses of pictures. Everything about a picture stands in its address, so that nothing has to be kept.
import type { Picture } from './picture.ts'

const name = /^([0-9a-f]{40})-([1-9]\d{0,3})x([1-9]\d{0,3})\.(\w+)$/

/** Where the simulator serves a picture. */
export function pictureAddress(origin: string, { digest, width, height }: Picture, format: string): string {
  return `${origin}/files/${digest}-${width}x${height}.${format}`
}

/** The picture that the last segment of an address stands for; undefined when it is none. */
export function pictureAt(segment: string): { picture: Picture; format: string } | undefined {
  const [, digest, width, height, format] = name.exec(segment) ?? []
  if (digest === undefined || format === undefined) return undefined
  return { picture: { digest, width: Number(width), height: Number(height) }, format }
}
