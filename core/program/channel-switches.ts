// Which channels are switched off or drain: by gateway.yaml, and by what operators set at run time.
import { byAccount } from '../catalogue/account.ts'
import type { Channel, ChannelSwitch } from '../catalogue/catalogue.ts'
import { documentKind } from '../store/documents.ts'
import type { Documents } from '../store/documents.ts'

/** What an operator set at run time for the channel of this name. It is kept until it is undone, over restarts too. */
export interface StoredSwitch {
  readonly name: string
  readonly to: Exclude<ChannelSwitch, 'on'>
  /** Unix milliseconds. */
  readonly since: number
  /** Who set it, as in the audit log. */
  readonly by: string
}

/** The documents of switches; their ids are the names of channels. There is none for a channel that nobody switched. */
export const switchDocuments = documentKind<StoredSwitch>('channel')

const strength: Readonly<Record<ChannelSwitch, number>> = { on: 0, draining: 1, off: 2 }

/** The switches of the channels of one generation. Of the file and the operator, whoever allows less counts. */
export class ChannelSwitches {
  readonly #channels: ReadonlyMap<string, Channel>
  readonly #documents: Documents
  readonly #unwatch: () => void
  #switched: ReadonlyMap<Channel, Exclude<ChannelSwitch, 'on'>>

  /** Call {@link ChannelSwitches.close} when the generation is over. */
  constructor(channels: ReadonlyMap<string, Channel>, documents: Documents) {
    this.#channels = channels
    this.#documents = documents
    this.#switched = this.#read()
    this.#unwatch = documents.watch((changes) => {
      if (changes.some(({ kind }) => kind === switchDocuments.name)) this.#switched = this.#read()
    })
  }

  /** See {@link Catalogue.switched}. Another map after each change. */
  get switched(): ReadonlyMap<Channel, Exclude<ChannelSwitch, 'on'>> {
    return this.#switched
  }

  /** Follows no more changes. */
  close(): void {
    this.#unwatch()
  }

  #read(): Map<Channel, Exclude<ChannelSwitch, 'on'>> {
    const switched = new Map<Channel, Exclude<ChannelSwitch, 'on'>>()
    for (const channel of this.#channels.values()) {
      const stored = this.#documents.find(switchDocuments, channel.name)?.to ?? 'on'
      const state = strength[stored] > strength[channel.switch] ? stored : channel.switch
      if (state === 'on') continue
      for (const one of [channel, ...byAccount(channel)]) switched.set(one, state)
    }
    return switched
  }
}
