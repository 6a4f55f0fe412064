// The services of a process or a thread whose store another one has: what they are asked for goes there as messages.
import type { Answers } from '../answers.ts'
import type { Claims } from '../claims.ts'
import type { Documents } from '../documents.ts'
import type { RequestBook } from '../requests.ts'
import type { Routes } from '../routes.ts'
import type { Secrets } from '../secrets.ts'
import type { Store } from '../store.ts'
import type { Works } from '../works.ts'
import type { Caller } from './line.ts'

export function requestsThere(line: Caller): RequestBook {
  return {
    append: (...record) => line.tell('append', ...record),
    list: (query) => line.ask('list', query),
    find: (id, tenant) => line.ask('findRequest', id, tenant),
    totals: (query, parts) => line.ask('totals', query, parts)
  }
}

/** What is added up there. */
export function sumsThere(line: Caller): Pick<Store, 'spend' | 'traffic'> {
  return {
    spend: (query) => line.ask('spend', query),
    traffic: (query) => line.ask('traffic', query)
  }
}

export function answersThere(line: Caller): Answers {
  return {
    find: (id) => line.ask('findAnswer', id),
    put: (id, tenant, answer) => line.ask('putAnswer', id, tenant, answer)
  }
}

export function routesThere(line: Caller): Routes {
  return {
    find: (owner, id) => line.ask('findRoute', owner, id),
    put: (routes) => line.ask('putRoutes', routes),
    remove: (owner, id) => line.ask('removeRoute', owner, id)
  }
}

/** Reads are of a copy here, which follows those there. */
export function documentsThere(line: Caller, copy: Pick<Documents, 'all' | 'find' | 'watch'>): Documents {
  return {
    all: (kind) => copy.all(kind),
    find: (kind, id) => copy.find(kind, id),
    change: (changes, entry) => line.ask('change', changes, entry),
    note: (changes) => line.tell('note', changes),
    watch: (tell) => copy.watch(tell),
    audit: (query) => line.ask('audit', query)
  }
}

/** Secrets are among the documents. What each key has, and what is spent with them, is counted there for all. */
export function secretsThere(line: Caller, copy: Pick<Secrets, 'find'>): Secrets {
  return {
    put: (secret) => line.ask('putSecret', secret),
    find: (sha256) => copy.find(sha256),
    spent: (sha256) => line.ask('spentOfSecret', sha256),
    hold: (sha256, name, amount) => line.ask('holdOfSecret', sha256, name, amount),
    end: (sha256, name, charged) => line.tell('endOfSecret', sha256, name, charged)
  }
}

export function claimsThere(line: Caller): Claims {
  return {
    take: (name, what) => line.ask('claim', name, what),
    look: (name) => line.ask('lookAtClaim', name),
    leave: (name) => line.tell('leaveClaim', name)
  }
}

/** What is stored of work there. */
export function workThere(line: Caller): Pick<Works, 'find' | 'list' | 'forget' | 'oldest' | 'places'> {
  return {
    find: (owner, id) => line.ask('findWork', owner, id),
    list: (query) => line.ask('listWork', query),
    forget: (work) => line.ask('forgetWork', work),
    oldest: (tenant, limit) => line.ask('oldestWork', tenant, limit),
    places: {
      take: (id, tenant, bounds) => line.ask('takePlace', id, tenant, bounds),
      leave: (id) => line.tell('leavePlace', id)
    }
  }
}
