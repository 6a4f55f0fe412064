// The routes by which people sign in and out, and see and end sessions.
import { GatewayError } from '../../errors.ts'
import type { OptionSchemas } from '../../options/schema.ts'
import type { AdminParts, Answer, Call, LiveRoute } from '../api/contract.ts'
import { readEntry } from '../api/entry.ts'
import { pageOf, paging, shown } from '../api/query.ts'
import { page, session, signedOut, waysIn, whoAmI } from '../api/shapes.ts'
import { forbidden } from './access.ts'
import type { Entrant } from './entrants.ts'
import { within } from './roles.ts'
import type { Role } from './roles.ts'
import type { Identity, SignIn } from './sign-in.ts'

const everybody = { needs: 'see', tenant: { in: 'nothing' } } as const

/** What somebody signs in with. */
const tokenFields = {
  token: { type: 'string', minLength: 1, secret: true, description: 'admin.token, or the token of an operator.' }
} as const satisfies OptionSchemas

/** All routes of sessions. */
export const sessionRoutes: readonly LiveRoute[] = [
  {
    method: 'GET',
    path: '/admin/sign-in',
    summary: 'Says how people can sign in',
    access: 'anyone',
    query: [],
    answers: { 200: waysIn },
    handle: ({ host }, { signingIn: { provider, isPrivate } }) => ({
      json: { token: true, oidc: provider !== undefined, private: isPrivate(host) }
    })
  },
  {
    method: 'GET',
    path: '/admin/login',
    summary: 'Sends a browser to the provider of sign-ins',
    access: 'anyone',
    query: ['tenant', 'to'],
    answers: { 302: 'text/plain' },
    handle: login
  },
  {
    method: 'GET',
    path: '/admin/callback',
    summary: 'Where the provider sends the browser back to, which begins a session',
    access: 'anyone',
    answers: { 200: 'text/html' },
    handle: comeBack
  },
  {
    method: 'POST',
    path: '/admin/logout',
    summary: 'Ends the session of whoever asks',
    access: everybody,
    query: [],
    answers: { 200: signedOut },
    handle: logout
  },
  {
    method: 'GET',
    path: '/admin/v1/session',
    summary: 'Says who asks, and what they may do',
    access: everybody,
    query: [],
    answers: { 200: whoAmI },
    handle: async ({ by, cookies, host }, parts) => {
      const { sessions } = parts.signingIn
      return { json: await selfOf(by, by.session === undefined ? null : sessions.csrfOf(cookies, host), parts) }
    }
  },
  {
    method: 'POST',
    path: '/admin/v1/session',
    summary: 'Signs in by a token, from a page of this listener, which begins a session',
    access: 'anyone',
    query: [],
    body: { fields: tokenFields, required: ['token'] },
    answers: { 201: whoAmI },
    handle: signIn
  },
  {
    method: 'GET',
    path: '/admin/v1/sessions',
    summary: 'Lists sessions: one’s own, and for who sees the whole gateway, all',
    access: everybody,
    query: paging,
    answers: { 200: page(session) },
    handle: async ({ query, by }, { signingIn: { sessions } }) => ({
      json: pageOf(await sessions.list(by.tenant === null ? undefined : by), (one) => one.session, query)
    })
  },
  {
    method: 'DELETE',
    path: '/admin/v1/sessions/{session}',
    summary: 'Ends a session: one’s own, and for who runs the gateway, any',
    access: everybody,
    query: [],
    answers: { 200: session },
    handle: end
  }
]

/**
 * Signs in by a token. All refusals are alike, so that nobody learns which tokens there are; the audit log has the
 * reason.
 */
async function signIn(call: Call, parts: AdminParts): Promise<Answer> {
  const { json, by } = call
  const { token } = readEntry(tokenFields, ['token'], await json(), '{"token": "…"}').value
  const { signingIn, log } = parts
  const address = by.address ?? ''
  const succeeded = signingIn.tries.begin(address)
  let who: Entrant
  try {
    who = await signingIn.byToken(token.trim(), address)
  } catch (error) {
    // What is mistyped or unknown is nobody's to tell; what is over is somebody's.
    if (error instanceof GatewayError && error.code === 'expired_api_key')
      signingIn.refusedSignIn(address, error.message)
    if (!(error instanceof GatewayError) || error.status !== 401) throw error
    throw new GatewayError('invalid_api_key', 'This token signs nobody in here. It may be mistyped, or over.', {
      shownCode: 'sign_in_refused'
    })
  }
  const begun = await signingIn.sessions.begin(who, { ...call, address: by.address, requestId: by.requestId })
  succeeded()
  log.info('somebody signed in', { by: begun.by.id, kind: begun.by.kind })
  return { status: 201, json: await selfOf(begun.by, begun.csrf, parts), headers: { 'set-cookie': begun.cookie } }
}

async function login({ query, host, search }: Call, { signingIn }: AdminParts): Promise<Answer> {
  const { provider, cookies, home } = signingIn
  const signIn = known(provider)
  const redirected = { status: 302, text: '', contentType: 'text/plain' }
  // The provider sends browsers back to one address, and cookies are for the name that they were set by.
  if (home !== undefined && host !== new URL(home).host)
    return { ...redirected, headers: { location: `${home}/admin/login${search}` } }
  const to = query.get('to') ?? '/console/'
  // Only paths of this listener: an address of another site would make this one a lure.
  const safe = /^\/(?:admin|console)(?:\/[\w/.-]*)?(?:\?[\w=&%.~+:,*@-]*)?$/.test(to) ? to : '/console/'
  const { address, journey } = await signIn.begin(query.get('tenant') ?? null, safe)
  return { ...redirected, headers: { location: address, 'set-cookie': cookies.keep('login', journey, host, 600) } }
}

async function comeBack(call: Call, { signingIn, log }: AdminParts): Promise<Answer> {
  const { provider, cookies, sessions, refusedSignIn } = signingIn
  const { by, host, search } = call
  let who: Identity | undefined
  try {
    const back = await known(provider).end(search, cookies.find('login', call.cookies, host))
    who = back.who
    const { cookie } = await sessions.begin(who, { ...call, address: by.address, requestId: by.requestId })
    log.info('somebody signed in', { issuer: who.issuer, subject: who.subject, name: who.name })
    const to = back.to.replaceAll('&', '&amp;')
    return {
      // A redirect would still count as coming from the provider's site; a page that goes on by itself does not.
      text: `<!doctype html><meta http-equiv="refresh" content="0;url=${to}"><title>Sluice</title><a href="${to}">Go on</a>\n`,
      contentType: 'text/html; charset=utf-8',
      headers: {
        'set-cookie': [cookie, cookies.keep('login', undefined, host, 0)],
        'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
        'referrer-policy': 'no-referrer'
      }
    }
  } catch (error) {
    if (error instanceof GatewayError && error.details.shownCode === 'sign_in_refused')
      refusedSignIn(by.address ?? '', error.message, who)
    throw error
  }
}

async function logout({ by, host }: Call, { signingIn: { sessions } }: AdminParts): Promise<Answer> {
  if (by.session === undefined) return { json: { signed_out: false } }
  await sessions.end(by.session, by)
  return { json: { signed_out: true }, headers: { 'set-cookie': sessions.forgetting(host) } }
}

/** Who asks, as they are told themselves. */
async function selfOf(by: Call['by'], csrf: string | null, { signingIn, clients }: AdminParts): Promise<object> {
  const { kind, id, name = null, role, tenant } = by
  const own = await signingIn.sessions.find(by.session)
  return {
    kind,
    id,
    name,
    role,
    tenant,
    how: own?.how ?? 'none',
    session: own?.session ?? null,
    csrf,
    began: own?.created ?? null,
    idle_ends: own?.idle_ends ?? null,
    expires: own?.expires ?? null,
    may: signingIn.rightsOf(by),
    clients
  }
}

async function end({ names, by }: Call, { signingIn: { sessions } }: AdminParts): Promise<Answer> {
  const name = names['session']!
  const runs = by.role === 'owner' || by.role === 'operator'
  const found = (await sessions.list(runs ? undefined : by)).find((one) => one.session === name)
  if (!found)
    throw new GatewayError('route_not_found', `There is no session ${shown(name)}.`, { shownCode: 'session_not_found' })
  if (runs && found.role !== null && !within({ role: found.role as Role, tenant: found.tenant }, by))
    throw forbidden(`The session is of an ${found.role}, whom the role ${by.role} may not sign out.`)
  await sessions.end(name, by)
  return { json: found }
}

function known(provider: SignIn | undefined): SignIn {
  if (provider) return provider
  throw new GatewayError('route_not_found', 'No provider signs people in here: admin.oidc is not in gateway.yaml.', {
    shownCode: 'sign_in_not_set_up'
  })
}
