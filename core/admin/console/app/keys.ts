// Shortcuts of the keyboard. Those of a single key can be turned off (WCAG 2.1.4), and never act in fields or dialogs.
import { signal } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'
import { recall, remember } from './remembered.ts'

/** Whether single keys act. */
export const singleKeys = signal(recall('keys') !== false)

/** Lets single keys act, or not. */
export function allowSingleKeys(allowed: boolean): void {
  singleKeys.value = allowed
  remember('keys', allowed ? undefined : false)
}

/**
 * Lets single keys act while the component is there: `{ j: next, k: previous }`, by `KeyboardEvent.key` in lower case.
 * What is pressed with Control, Alt or the like is the browser's.
 */
export function useKeys(keys: Readonly<Record<string, () => void>>): void {
  const latest = useRef(keys)
  latest.current = keys
  useEffect(() => {
    const press = (event: KeyboardEvent): void => {
      if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || !singleKeys.peek()) return
      const key = event.key.length === 1 ? event.key.toLowerCase() : event.key
      const act = Object.hasOwn(latest.current, key) ? latest.current[key] : undefined
      if (!act || isField(event.target) || document.querySelector('dialog[open]')) return
      event.preventDefault()
      act()
    }
    addEventListener('keydown', press)
    return () => removeEventListener('keydown', press)
  }, [])
}

function isField(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && target.closest('input, textarea, select, [contenteditable]') !== null
}
