import { onMount } from 'svelte'
import { type Problem, problemOf } from './api'
import { connection } from './connection.svelte'
import { follow } from './events'
import { session } from './session.svelte'

const AT_MOST_EVERY_MS = 1_000

/**
 * A document that is read again after events, every so often, and when the node answers again.
 *
 * It keeps what it had when a read fails. Nothing is read while the page is hidden.
 */
export class Live<T> {
  data = $state.raw<T | undefined>(undefined)
  problem = $state.raw<Problem | null>(null)
  private current = 0
  private readAt = 0
  private timer: ReturnType<typeof setTimeout> | undefined

  constructor(private readonly load: () => Promise<T>) {}

  async read(): Promise<void> {
    const mine = ++this.current
    this.readAt = Date.now()
    try {
      const data = await this.load()
      if (mine !== this.current) return
      this.data = data
      this.problem = null
    } catch (error) {
      if (mine === this.current) this.problem = problemOf(error)
    }
  }

  /** Read soon, however often this is called in between. */
  touch(): void {
    if (this.timer !== undefined) return
    const wait = Math.max(50, this.readAt + AT_MOST_EVERY_MS - Date.now())
    this.timer = setTimeout(() => {
      this.timer = undefined
      if (!document.hidden) void this.read()
    }, wait)
  }

  stop(): void {
    clearTimeout(this.timer)
    this.current++
  }
}

/** Return a document that is live as long as the component is there. */
export function live<T>(load: () => Promise<T>, options: { every_s: number; events?: string }): Live<T> {
  const it = new Live(load)
  onMount(() => {
    const timer = setInterval(() => {
      if (!document.hidden && !connection.isStale && !session.isRefused) void it.read()
    }, options.every_s * 1_000)
    const onVisible = () => {
      if (!document.hidden) it.touch()
    }
    document.addEventListener('visibilitychange', onVisible)
    const ends = [connection.onReturn(() => void it.read())]
    if (options.events !== undefined) ends.push(follow(options.events, () => it.touch()))
    void it.read()
    return () => {
      clearInterval(timer)
      document.removeEventListener('visibilitychange', onVisible)
      for (const end of ends) end()
      it.stop()
    }
  })
  return it
}
