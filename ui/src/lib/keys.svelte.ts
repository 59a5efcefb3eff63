import { go } from './route.svelte'

const SECOND_MS = 1_500
const VIEWS: Record<string, string[]> = { o: [], j: ['jobs'], e: ['executions'] }

/** What the keys of the whole page do. */
class Keys {
  /** The dialog that is open. */
  open = $state<'' | 'palette' | 'help'>('')
  private leaderAt = -Infinity

  press(event: KeyboardEvent): void {
    if (isTyping(event.target) || document.querySelector('dialog[open]')) return
    const key = event.key.toLowerCase()
    const isSecond = event.timeStamp - this.leaderAt < SECOND_MS
    this.leaderAt = -Infinity
    if (event.ctrlKey || event.metaKey) {
      if (key !== 'k' || event.altKey || event.shiftKey) return
      this.open = 'palette'
    } else if (event.altKey) return
    else if (isSecond && VIEWS[key]) go(...VIEWS[key])
    else if (key === '?') this.open = 'help'
    else if (key === 'g') {
      this.leaderAt = event.timeStamp
      return
    } else return
    event.preventDefault()
  }
}

/** Return whether keys belong to a field. */
export function isTyping(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && target.closest('input, textarea, select, [contenteditable]') !== null
}

export const keys = new Keys()
