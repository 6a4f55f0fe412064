// Writes pictures, documents, sound and films for Converse, which knows them by formats and not by media types.
import type { Losses } from '../canonical/losses.ts'
import type { MediaPart } from '../canonical/request.ts'
import { invalid } from '../canonical/untranslatable.ts'

type Block = Record<string, unknown>

/** https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_DocumentBlock.html and its likes */
const formats: Readonly<Record<MediaPart['type'], Readonly<Record<string, string>>>> = {
  image: { 'image/png': 'png', 'image/jpeg': 'jpeg', 'image/gif': 'gif', 'image/webp': 'webp' },
  document: {
    'application/pdf': 'pdf',
    'text/plain': 'txt',
    'text/csv': 'csv',
    'text/html': 'html',
    'text/markdown': 'md',
    'application/msword': 'doc',
    'application/vnd.openxmlformats-officedocument.wordprocessingml.document': 'docx',
    'application/vnd.ms-excel': 'xls',
    'application/vnd.openxmlformats-officedocument.spreadsheetml.sheet': 'xlsx'
  },
  audio: {
    'audio/mpeg': 'mp3',
    'audio/mp3': 'mp3',
    'audio/wav': 'wav',
    'audio/x-wav': 'wav',
    'audio/flac': 'flac',
    'audio/ogg': 'ogg',
    'audio/opus': 'opus',
    'audio/aac': 'aac',
    'audio/mp4': 'm4a',
    'audio/webm': 'webm'
  },
  video: {
    'video/mp4': 'mp4',
    'video/quicktime': 'mov',
    'video/x-matroska': 'mkv',
    'video/webm': 'webm',
    'video/x-flv': 'flv',
    'video/mpeg': 'mpeg',
    'video/x-ms-wmv': 'wmv',
    'video/3gpp': 'three_gp'
  }
}

/** By the end of an address, for media that came without a type. */
const ofEndings: Readonly<Record<string, string>> = { jpg: 'jpeg', htm: 'html', '3gp': 'three_gp', text: 'txt' }

/** Writes the media of one request: documents need names that differ. */
export class MediaWriter {
  readonly #losses: Losses
  #documents = 0

  constructor(losses: Losses) {
    this.#losses = losses
  }

  /**
   * The blocks of a part. A document's title is in a text before it, as names may have few characters, and the model
   * reads them as part of the prompt.
   * @throws Untranslatable for media of another format, and for addresses that are not of S3
   */
  write(part: MediaPart): Block[] {
    const { type, name } = part
    const media: Block = { format: this.#formatOf(part), source: this.#source(part) }
    if (type !== 'document') return [{ [type]: media }]
    const block = { document: { ...media, name: `document-${++this.#documents}` } }
    return name === undefined || name.trim() === '' ? [block] : [{ text: `${name}:` }, block]
  }

  #formatOf({ type, source }: MediaPart): string {
    const known = formats[type]
    const { mimeType } = source
    if (mimeType !== undefined) {
      const format = known[mimeType] ?? (type === 'document' && mimeType.startsWith('text/') ? 'txt' : undefined)
      if (format !== undefined) return format
    } else if (source.kind === 'url') {
      const [, written = ''] = /\.(\w{1,8})$/.exec(source.url) ?? []
      const ending = written.toLowerCase()
      const format = ofEndings[ending] ?? ending
      if (Object.values(known).includes(format)) return format
    }
    throw invalid(
      this.#losses.conversation,
      `a conversation whose files are of a type that the channel of this model takes (${type}: ${Object.keys(known).join(', ')})`
    )
  }

  #source({ type, source }: MediaPart): Block {
    if (source.kind === 'data') return { bytes: source.data }
    if (source.kind === 'url' && source.url.startsWith('s3://')) return { s3Location: { uri: source.url } }
    throw this.#losses.refusal(type === 'image' ? 'image_url' : type === 'video' ? 'video' : 'document_url')
  }
}
