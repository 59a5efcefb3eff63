import type { IconName } from '../parts/Icon.svelte'
import { may } from './rights'

/** A view of the navigation and of the palette. */
export type View = { path: string; icon: IconName; name: string; keys?: string }

const VIEWS: View[] = [
  { path: '', icon: 'overview', name: 'Overview', keys: 'g o' },
  { path: 'jobs', icon: 'jobs', name: 'Jobs', keys: 'g j' },
  { path: 'executions', icon: 'executions', name: 'Executions', keys: 'g e' },
  { path: 'upcoming', icon: 'upcoming', name: 'Upcoming' },
  { path: 'calendars', icon: 'calendars', name: 'Calendars' },
  { path: 'ledger', icon: 'ledger', name: 'Ledger' },
  { path: 'ring', icon: 'ring', name: 'Ring' },
]
const OPERATE: (View & { isOffered: (isAuditor: boolean) => Promise<boolean> })[] = [
  { path: 'changes', icon: 'changes', name: 'Changes', isOffered: async (isAuditor) => isAuditor },
  { path: 'namespaces', icon: 'namespaces', name: 'Namespaces', isOffered: async (isAuditor) => isAuditor || (await may('read')) },
  { path: 'access', icon: 'access', name: 'Access', isOffered: async (isAuditor) => isAuditor || (await may('admin')) || (await may('grant')) },
  { path: 'secrets', icon: 'secrets', name: 'Secrets', isOffered: async () => (await may('secret:use')) || (await may('secret:write')) },
]

/** The views that the caller may see. */
class Views {
  readonly main = VIEWS
  operate = $state.raw<View[]>([])
  private asked = 0

  get all(): View[] {
    return [...this.main, ...this.operate]
  }

  /** Ask which views are for the caller, which another key may change. */
  async read(): Promise<void> {
    const mine = ++this.asked
    const isAuditor = await may('audit')
    const offered = await Promise.all(OPERATE.map((each) => each.isOffered(isAuditor)))
    if (mine === this.asked) this.operate = OPERATE.filter((_, index) => offered[index])
  }

  /** Offer no more than what everybody sees. */
  forget(): void {
    this.asked++
    this.operate = []
  }
}

export const views = new Views()
