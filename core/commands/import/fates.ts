// What became of each setting that an import read: nothing is left out without being told.

/** A setting that has no counterpart, or one that is only similar. */
export interface Told {
  /** Where it stands in the source: `router_settings.routing_strategy`. */
  readonly setting: string
  readonly fate: 'approximated' | 'dropped'
  /** What it became, or why it became nothing. */
  readonly note: string
}

/** Collects what is told. Several places with the same setting and note are one line. */
export class Fates {
  readonly #told = new Map<string, Told & { readonly of: Set<string> }>()

  /** `of`: the model, key or channel that it was said of. */
  tell(fate: Told['fate'], setting: string, note: string, of = ''): void {
    const id = `${fate} ${setting} ${note}`
    const known = this.#told.get(id)
    if (known) known.of.add(of)
    else this.#told.set(id, { fate, setting, note, of: new Set([of]) })
  }

  dropped(setting: string, note: string, of?: string): void {
    this.tell('dropped', setting, note, of)
  }

  approximated(setting: string, note: string, of?: string): void {
    this.tell('approximated', setting, note, of)
  }

  /** All of them, for programs. */
  get all(): readonly (Told & { readonly of: readonly string[] })[] {
    return [...this.#told.values()].map(({ of, ...told }) => ({ ...told, of: [...of].filter((one) => one !== '') }))
  }

  /** All of them, for people: names that others gave, without signs that a terminal would obey. */
  get text(): string {
    const texts = (['approximated', 'dropped'] as const).flatMap((fate) => {
      const lines = this.all
        .filter((told) => told.fate === fate)
        .map(({ setting, note, of }) => `  ${setting}: ${note}${of.length === 0 ? '' : ` (${some(of)})`}`)
      return lines.length === 0 ? [] : [`${fate}:`, ...lines]
    })
    return texts.map((line) => line.replaceAll(/\p{C}/gu, '?')).join('\n')
  }
}

/** A few names, and how many more there are. */
export function some(names: readonly string[]): string {
  return names.length <= 4 ? names.join(', ') : `${names.slice(0, 3).join(', ')} and ${names.length - 3} more`
}
