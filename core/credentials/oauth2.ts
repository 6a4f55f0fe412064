// Tokens by the grant `client_credentials` of OAuth 2.0.
import type { Grant } from './grant.ts'
import type { Oauth2Source } from './source.ts'
import { askServer, tokenIn } from './token-server.ts'

const who = 'the token server'

/** Asks the token server for a token. */
export async function askOauth2(source: Oauth2Source, signal: AbortSignal): Promise<Grant> {
  const { tokenUrl, clientId, clientSecret, clientAuth, scope, parameters } = source
  const asked = Date.now()
  const basic = clientAuth === 'basic'
  const { text } = await askServer({
    url: tokenUrl,
    who,
    ...(basic && { headers: { authorization: basicOf(clientId, clientSecret) } }),
    form: {
      grant_type: 'client_credentials',
      ...(!basic && { client_id: clientId, client_secret: clientSecret }),
      ...(scope !== undefined && { scope }),
      ...parameters
    },
    signal
  })
  return tokenIn(text, who, asked)
}

/** RFC 6749 section 2.3.1: both are encoded as in a form before they are joined. */
function basicOf(id: string, secret: string): string {
  const [user, password] = [id, secret].map((text) => new URLSearchParams({ '': text }).toString().slice(1))
  return `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`
}
