import { untrack } from 'svelte'
import { type Problem, problemOf } from './api'
import { type Live, live } from './live.svelte'
import type { Page } from './types'

/**
 * A list whose first page is live.
 *
 * After the first page it stays as it is: new items would move between its pages.
 */
export class Paged<T> {
  problem = $state.raw<Problem | null>(null)
  isReading = $state(false)
  /** The pages after the first; null while only the first is shown. */
  older = $state.raw<Page<T> | null>(null)
  readonly first: Live<Page<T>>
  readonly items = $derived.by(() => [...(this.first.data?.items ?? []), ...(this.older?.items ?? [])])
  readonly cursor = $derived.by(() => (this.older ?? this.first.data)?.nextCursor ?? null)
  private asked = 0

  constructor(
    private readonly load: (cursor: string) => Promise<Page<T>>,
    every_s: number,
  ) {
    this.first = live(async () => (this.older && this.first.data ? this.first.data : await load('')), { every_s })
  }

  /** Begin with the first page again. */
  again(): void {
    this.asked++
    this.older = null
    this.problem = null
    void this.first.read()
  }

  async more(): Promise<void> {
    if (this.cursor === null) return
    const mine = ++this.asked
    this.isReading = true
    try {
      const next = await this.load(this.cursor)
      if (mine !== this.asked) return
      this.older = { items: [...(this.older?.items ?? []), ...next.items], nextCursor: next.nextCursor ?? null }
      this.problem = null
    } catch (error) {
      if (mine === this.asked) this.problem = problemOf(error)
    } finally {
      this.isReading = false
    }
  }
}

/** Return a list that begins again when its filters change, and is live as long as the component is there. */
export function paged<T>(load: (cursor: string) => Promise<Page<T>>, every_s: number, filters = () => ''): Paged<T> {
  const list = new Paged(load, every_s)
  let shown = untrack(filters)
  $effect(() => {
    const wanted = filters()
    if (wanted === shown) return
    shown = wanted
    untrack(() => list.again())
  })
  return list
}
