import { unsaved } from './unsaved.svelte'

/** The address as state: ``#/part/part?name=value``. */
class Route {
  parts = $state.raw<string[]>([])
  query = $state.raw(new URLSearchParams())

  constructor() {
    this.read()
    window.addEventListener('hashchange', () => this.read())
  }

  get(name: string): string {
    return this.query.get(name) ?? ''
  }

  /** Change the query in place; an empty value removes its name. */
  set(changes: Record<string, string>): void {
    const query = new URLSearchParams(this.query)
    for (const [name, value] of Object.entries(changes)) {
      if (value) query.set(name, value)
      else query.delete(name)
    }
    history.replaceState(null, '', href(this.parts, query))
    this.query = query
  }

  private read(): void {
    const [path = '', query = ''] = location.hash.replace(/^#\/?/, '').split('?', 2)
    const parts = path.split('/').filter(Boolean).map(decoded)
    if (unsaved.isThere() && parts.join('/') !== this.parts.join('/')) {
      // A browser cannot be kept from changing the hash: put the old one on top, and go back to leave.
      history.pushState(null, '', href(this.parts, this.query))
      unsaved.ask(() => history.back())
      return
    }
    this.parts = parts
    this.query = new URLSearchParams(query)
  }
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    return part
  }
}

export function href(parts: string[], query?: URLSearchParams): string {
  const text = query?.toString() ?? ''
  return `#/${parts.map(encodeURIComponent).join('/')}${text && `?${text}`}`
}

export function go(...parts: string[]): void {
  location.hash = href(parts)
}

/** Return the address of a view; the first one has no path. */
export function viewHref(path: string): string {
  return href(path ? [path] : [])
}

/** Return the address of a job that is named ``namespace/name``. */
export function jobHref(name: string): string {
  return href(['jobs', ...name.split('/')])
}

/** Return the address where a job that is named ``namespace/name`` is edited, from a version of it. */
export function editHref(name: string, version?: number): string {
  const query = version === undefined ? undefined : new URLSearchParams({ version: String(version) })
  return href(['jobs', ...name.split('/'), 'edit'], query)
}

export const route = new Route()
