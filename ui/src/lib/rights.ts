import { get, query } from './api'

export type Verb = 'read' | 'logs' | 'run' | 'write' | 'secret:use' | 'secret:write' | 'grant' | 'audit' | 'admin'
type Caller = { principal: string; bindings: { role: string; namespaces: string[] }[]; allowed: boolean | null }

const MOST = 8
const MOST_SHOWN = 20
/** These count in the whole cluster only. */
const OF_CLUSTER: Verb[] = ['audit', 'admin']

/** Return whether the caller has a verb in a namespace; without one, in any of those of its roles. */
export async function may(verb: Verb, namespace = ''): Promise<boolean> {
  try {
    const caller = await ask(verb, namespace)
    if (caller.allowed || namespace || OF_CLUSTER.includes(verb)) return caller.allowed ?? false
    // A role is for names, or for all names that begin alike: ask for one that could be.
    const names = new Set(caller.bindings.flatMap((each) => each.namespaces).map((each) => each.replace(/\*$/, 'x')))
    for (const each of [...names].slice(0, MOST)) {
      if ((await ask(verb, each)).allowed) return true
    }
  } catch {
    // The view says itself that the node does not answer.
  }
  return false
}

/** Return in which of some namespaces the caller has a verb. */
export async function mayIn(verb: Verb, namespaces: Set<string>): Promise<Set<string>> {
  try {
    if ((await ask(verb, '')).allowed) return namespaces
  } catch {
    return new Set()
  }
  const names = [...namespaces].slice(0, MOST_SHOWN)
  const answers = await Promise.all(names.map((each) => may(verb, each)))
  return new Set(names.filter((_, index) => answers[index]))
}

function ask(verb: Verb, namespace: string): Promise<Caller> {
  return get<Caller>(`/whoami${query({ verb, namespace })}`)
}
