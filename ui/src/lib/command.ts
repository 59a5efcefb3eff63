/** Commands of a shell that do what a button does. */

/** Return the words as one line for a shell. */
export function shell(...argv: string[]): string {
  return argv.map(quoted).join(' ')
}

/** Return the command that sends a file: what it has is too long, or too secret, for an argument. */
export function curlFile(method: string, path: string, headers: Record<string, string> = {}, file = 'job.json'): string {
  const argv = ['curl', '-X', method, `${location.origin}/api/v1${path}`, '--json', `@${file}`]
  for (const [name, value] of Object.entries(headers)) argv.push('-H', `${name}: ${value}`)
  return `${shell(...argv)} -H "Authorization: Bearer $(rota auth token)"`
}

export function curl(path: string, body?: unknown, method = 'POST', headers: Record<string, string> = {}): string {
  const argv = ['curl', '-X', method, `${location.origin}/api/v1${path}`]
  if (body !== undefined) argv.push('--json', JSON.stringify(body))
  for (const [name, value] of Object.entries(headers)) argv.push('-H', `${name}: ${value}`)
  return `${shell(...argv)} -H "Authorization: Bearer $(rota auth token)"`
}

function quoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`
}
