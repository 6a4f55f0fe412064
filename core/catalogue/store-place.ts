// Where a configuration says that its store is: a SQLite file of this machine, or a book that many gateways share.
import { dirname } from 'node:path'

/** A store in a SQLite file, which one gateway has. */
export interface FilePlace {
  /** Its absolute path. The lock and the commit log are beside it. */
  readonly sqlite: string
}

/** A store that many gateways share. The names are those of the file. */
export interface SharedPlace {
  readonly sqlite?: undefined
  readonly postgres: {
    /** With the password. It must never be shown. */
    readonly url: string
    /** A direct connection for the listener, where `url` leads to a pooler. It must never be shown. */
    readonly listen_url: string | undefined
    /** For people, without user and password: `postgres://db.internal:5432/sluice`. */
    readonly shown: string
  }
  /** As the limiter of many nodes takes it: `ca` is the text of the file. Times are milliseconds. */
  readonly redis: {
    readonly url: string
    readonly sentinels?: readonly string[] | undefined
    readonly cluster: boolean
    readonly ca?: string | undefined
    readonly prefix: string
    readonly command_timeout: number
    readonly connect_timeout: number
  }
  readonly on_limits_unavailable: 'share' | 'refuse' | 'allow'
  /** The absolute path of what is this node's alone: its name, and its log for while PostgreSQL is away. */
  readonly folder: string
}

/** Where a store is. */
export type StorePlace = FilePlace | SharedPlace

/** A place with what names it alone. */
export type NamedPlace = FilePlace | { readonly sqlite?: undefined; readonly postgres: { readonly shown: string } }

/** The folder in which a gateway keeps what is on its own disk. */
export function folderOf(place: StorePlace): string {
  return place.sqlite === undefined ? place.folder : dirname(place.sqlite)
}

/** The place for people, and for telling whether two configurations mean the same store. It has no secrets. */
export function shownPlace(place: NamedPlace): string {
  return place.sqlite ?? place.postgres.shown
}
