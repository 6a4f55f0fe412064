// The routes by which people sign in and out, and see and end sessions.
import { GatewayError } from '../../errors.ts'
import type { AdminParts, Answer, Call, LiveRoute } from '../api/contract.ts'
import { pageOf, paging, shown } from '../api/query.ts'
import { page, session, signedOut, whoAmI } from '../api/shapes.ts'
import { forbidden } from './access.ts'
import { within } from './roles.ts'
import type { Role } from './roles.ts'
import type { Identity } from './sign-in.ts'

const everybody = { needs: 'see', tenant: { in: 'nothing' } } as const

/** All routes of sessions. */
export const sessionRoutes: readonly LiveRoute[] = [
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
    handle: showSelf
  },
  {
    method: 'GET',
    path: '/admin/v1/sessions',
    summary: 'Lists sessions of people who signed in',
    access: { needs: 'see' },
    query: paging,
    answers: { 200: page(session) },
    handle: ({ query }, { signingIn }) => ({
      json: pageOf(signingIn?.sessions.list() ?? [], (one) => one.session, query)
    })
  },
  {
    method: 'DELETE',
    path: '/admin/v1/sessions/{session}',
    summary: 'Ends a session',
    access: { needs: 'operate' },
    query: [],
    answers: { 200: session },
    handle: end
  }
]

async function login({ query }: Call, parts: AdminParts): Promise<Answer> {
  const { signIn, sessions } = signingInOf(parts)
  const to = query.get('to') ?? '/admin/v1/session'
  // Only paths of this listener: an address of another site would make this one a lure.
  const safe = /^\/(?:admin|console)(?:\/[\w/.-]*)?$/.test(to) ? to : '/admin/v1/session'
  const { address, journey } = await signIn.begin(query.get('tenant') ?? null, safe)
  const headers = { location: address, 'set-cookie': sessions.journeyCookie(journey) }
  return { status: 302, text: '', contentType: 'text/plain', headers }
}

async function comeBack({ search, cookies, by }: Call, parts: AdminParts): Promise<Answer> {
  const { signIn, sessions, refusedSignIn } = signingInOf(parts)
  let who: Identity | undefined
  try {
    const back = await signIn.end(search, sessions.journeyIn(cookies))
    who = back.who
    const cookie = await sessions.begin(who, by.address, by.requestId)
    parts.log.info('somebody signed in', { issuer: who.issuer, subject: who.subject, name: who.name })
    return {
      // A redirect would still count as coming from the provider's site; a page that goes on by itself does not.
      text: `<!doctype html><meta http-equiv="refresh" content="0;url=${back.to}"><title>Sluice</title><a href="${back.to}">Go on</a>\n`,
      contentType: 'text/html; charset=utf-8',
      headers: {
        'set-cookie': [cookie, sessions.journeyCookie(undefined)],
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

async function logout({ by }: Call, { signingIn }: AdminParts): Promise<Answer> {
  if (!signingIn || by.session === undefined) return { json: { signed_out: false } }
  await signingIn.sessions.end(by.session, by)
  return { json: { signed_out: true }, headers: { 'set-cookie': signingIn.sessions.forgetCookie } }
}

function showSelf({ by, cookies }: Call, { signingIn }: AdminParts): Answer {
  const csrf = by.session === undefined ? null : (signingIn?.sessions.csrfOf(cookies) ?? null)
  return { json: { kind: by.kind, id: by.id, name: by.name ?? null, role: by.role, tenant: by.tenant, csrf } }
}

async function end({ names, by }: Call, { signingIn }: AdminParts): Promise<Answer> {
  const name = names['session']!
  const found = signingIn?.sessions.list().find((one) => one.session === name)
  if (!signingIn || !found)
    throw new GatewayError('route_not_found', `There is no session ${shown(name)}.`, { shownCode: 'session_not_found' })
  if (found.role !== null && !within({ role: found.role as Role, tenant: found.tenant }, by))
    throw forbidden(`The session is of an ${found.role}, whom the role ${by.role} may not sign out.`)
  await signingIn.sessions.end(name, by)
  return { json: found }
}

function signingInOf({ signingIn }: AdminParts): NonNullable<AdminParts['signingIn']> {
  if (signingIn) return signingIn
  throw new GatewayError('route_not_found', 'Nobody can sign in here: admin.oidc is not in gateway.yaml.', {
    shownCode: 'sign_in_not_set_up'
  })
}
