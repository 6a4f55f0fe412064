// Which keys have strings under them that are no text: the scanner counts what a text says by them.

const silent = 1
const media = 2
const result = 3

/** The strings under these are the same in every request. */
const silentKeys = ['type', 'role', 'detail', 'format', 'media_type', 'mime_type', 'mimeType']
/**
 * The strings under these contain or point to a picture, sound or file, unless they are recognizably text: tools have
 * members with these names too.
 */
const mediaKeys = ['url', 'data', 'file_data', 'file_id', 'file_url', 'image_url', 'file_uri', 'fileUri', 'b64_json']
/**
 * Pictures that a model has made have this key, but also results of tools. A string of 1024 bytes or more that shows no
 * sign of text counts as a picture.
 */
const resultKeys = ['result']

/**
 * The keys and their kinds, as assembly/said.ts numbers them. A key has up to 16 bytes, of ASCII, and no two have the
 * same place in the tables of names (scan.ts).
 */
export const kinds: readonly (readonly [name: string, kind: number])[] = [
  ...silentKeys.map((name) => [name, silent] as const),
  ...mediaKeys.map((name) => [name, media] as const),
  ...resultKeys.map((name) => [name, result] as const)
]
