// Dark or light: by the browser's preference, unless the reader chose by hand.
import { signal } from '@preact/signals'

/** What the reader chose. */
export type Scheme = 'light' | 'dark' | 'system'

const dark = matchMedia('(prefers-color-scheme: dark)')
const kept = document.documentElement.style.colorScheme

/** The choice. */
export const scheme = signal<Scheme>(kept === 'light' || kept === 'dark' ? kept : 'system')
/** Whether it is dark now. Charts draw anew when it changes, since a canvas knows no styles. */
export const isDark = signal(darkNow())

function darkNow(): boolean {
  return scheme.value === 'dark' || (scheme.value === 'system' && dark.matches)
}

dark.addEventListener('change', () => (isDark.value = darkNow()))

/** Chooses. first.ts reads the same text before the next page is drawn. */
export function choose(chosen: Scheme): void {
  scheme.value = chosen
  document.documentElement.style.colorScheme = chosen === 'system' ? '' : chosen
  try {
    if (chosen === 'system') localStorage.removeItem('sluice.scheme')
    else localStorage.setItem('sluice.scheme', chosen)
  } catch {
    // Then it holds until the page is closed.
  }
  isDark.value = darkNow()
}
