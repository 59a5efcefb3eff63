import { request } from './api'
import { connection } from './connection.svelte'
import type { LiveEvent } from './types'

const AGAIN_MS = 500
const AGAIN_MS_MAX = 10_000

/**
 * Follow the events that *filter* selects; return the function that ends this.
 *
 * The stream is read with fetch, since EventSource cannot send a key. It is closed while the page
 * is hidden: a browser permits six connections to a node for all its tabs.
 */
export function follow(filter: string, listener: (event: LiveEvent) => void): () => void {
  let stop = new AbortController()
  let lastId = ''
  let pause = AGAIN_MS
  let isEnded = false

  async function read(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      try {
        const from = lastId ? `&lastEventId=${encodeURIComponent(lastId)}` : ''
        const response = await request(`/events?${filter}${from}`, {
          signal,
          headers: { Accept: 'application/x-ndjson' },
        })
        for await (const line of lines(response)) {
          if (!line) continue
          const event = JSON.parse(line) as LiveEvent
          lastId = event.id
          pause = AGAIN_MS
          listener(event)
        }
      } catch {
        if (!signal.aborted) void connection.beat()
      }
      await new Promise((resolve) => setTimeout(resolve, pause * (0.75 + Math.random() / 2)))
      pause = Math.min(pause * 2, AGAIN_MS_MAX)
    }
  }

  function onVisibility(): void {
    stop.abort()
    if (document.hidden || isEnded) return
    stop = new AbortController()
    void read(stop.signal)
  }

  document.addEventListener('visibilitychange', onVisibility)
  onVisibility()
  return () => {
    isEnded = true
    document.removeEventListener('visibilitychange', onVisibility)
    stop.abort()
  }
}

/** Yield the lines of a response as they arrive. */
async function* lines(response: Response): AsyncGenerator<string> {
  if (!response.body) return
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader()
  let rest = ''
  for (;;) {
    const { done, value } = await reader.read()
    if (done) break
    const parts = (rest + value).split('\n')
    rest = parts.pop() ?? ''
    yield* parts
  }
}

