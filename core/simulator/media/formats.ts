// The encodings there are, by the names that requests have for them.
import { aac } from './aac.ts'
import { flac } from './flac.ts'
import { jpegOf } from './jpeg.ts'
import { mp3 } from './mp3.ts'
import { opus } from './ogg.ts'
import { pcm, wav } from './pcm.ts'
import type { Picture } from './picture.ts'
import { pngOf } from './png.ts'
import type { SoundFormat } from './sound.ts'
import { webpOf } from './webp.ts'

/** Of pictures; the name is also the end of the content type. */
export const pictureFormats: Readonly<Record<string, (picture: Picture) => Buffer>> = {
  png: pngOf,
  jpeg: jpegOf,
  webp: webpOf
}

/** Of sounds. */
export const soundFormats: Readonly<Record<string, SoundFormat>> = { mp3, opus, aac, flac, wav, pcm }
