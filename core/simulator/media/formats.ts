// The formats of pictures and sounds, by the names that requests use.
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

/** Formats of pictures. The name is also the second half of the content type. */
export const pictureFormats: Readonly<Record<string, (picture: Picture) => Buffer>> = {
  png: pngOf,
  jpeg: jpegOf,
  webp: webpOf
}

/** Formats of sounds. */
export const soundFormats: Readonly<Record<string, SoundFormat>> = { mp3, opus, aac, flac, wav, pcm }
