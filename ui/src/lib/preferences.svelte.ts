/** What a person prefers on this machine: theme and zone. Nothing else is stored. */
const THEMES = ['system', 'light', 'dark'] as const
export type Theme = (typeof THEMES)[number]

class Preferences {
  theme = $state<Theme>(stored('theme', THEMES))
  zone = $state(stored('zone', ['UTC', 'local'] as const))

  constructor() {
    this.show()
  }

  nextTheme(): void {
    this.theme = THEMES[(THEMES.indexOf(this.theme) + 1) % THEMES.length] ?? 'system'
    localStorage.setItem('theme', this.theme)
    this.show()
  }

  nextZone(): void {
    this.zone = this.zone === 'UTC' ? 'local' : 'UTC'
    localStorage.setItem('zone', this.zone)
  }

  private show(): void {
    document.documentElement.dataset['theme'] = this.theme
  }
}

function stored<T extends string>(name: string, values: readonly [T, ...T[]]): T {
  const value = localStorage.getItem(name)
  return values.find((each) => each === value) ?? values[0]
}

export const preferences = new Preferences()
