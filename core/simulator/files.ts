// GET /files/{name}: what the addresses in answers lead to. Whoever knows one may read it, as it is with signed addresses.
import { bytesAnswer } from './answer.ts'
import type { Answer, Call, Protocol } from './answer.ts'
import { pictureAt } from './media/address.ts'
import { pictureFormats } from './media/formats.ts'
import { openai } from './openai/openai.ts'
import { Refusal } from './refusal.ts'

/** Serves files to everybody. */
export const files: Protocol = {
  ...openai,
  endpoints: [{ method: 'GET', path: '/files/{name}', answer }],
  claims: (path) => path.startsWith('/files/'),
  admits: () => true
}

function answer({ params }: Call): Answer {
  const found = pictureAt(params['name']!)
  if (!found || !Object.hasOwn(pictureFormats, found.format)) throw new Refusal(404, 'No such file.')
  return bytesAnswer(`image/${found.format}`, pictureFormats[found.format]!(found.picture))
}
