// GET /files/{name}: the files behind addresses in answers. No key is needed, as with signed addresses.
import { bytesAnswer } from './answer.ts'
import type { Answer } from './answer.ts'
import type { Call, Protocol } from './endpoint.ts'
import { videoFile } from './jobs/video-file.ts'
import { pictureAt } from './media/address.ts'
import { pictureFormats } from './media/formats.ts'
import { openai } from './openai/openai.ts'
import { Refusal } from './refusal.ts'

/** Serves files without a key. */
export const files: Protocol = {
  ...openai,
  endpoints: [{ method: 'GET', path: '/files/{name}', answer }],
  claims: (path) => path.startsWith('/files/'),
  admits: () => true
}

function answer({ params, state }: Call): Answer {
  const name = params['name']!
  const found = pictureAt(name)
  if (found && Object.hasOwn(pictureFormats, found.format))
    return bytesAnswer(`image/${found.format}`, pictureFormats[found.format]!(found.picture))
  const job = name.endsWith('.mp4') ? state.jobs.find(name.slice(0, -'.mp4'.length)) : undefined
  if (job?.plan.kind !== 'video' || job.status !== 'completed') throw new Refusal(404, 'No such file.')
  const directive = job.next()
  return { contentType: 'video/mp4', directive, counts: undefined, ...videoFile(job) }
}
