/** The roles that each cluster has; they cannot be changed, and are no documents. */
export const BUILT_IN: Record<string, string[]> = {
  viewer: ['read', 'logs'],
  operator: ['read', 'logs', 'run'],
  editor: ['read', 'logs', 'run', 'write', 'secret:use'],
  admin: ['read', 'logs', 'run', 'write', 'secret:use', 'secret:write', 'grant'],
  'cluster-operator': ['read', 'operate'],
  auditor: ['audit'],
  metrics: ['metrics'],
  'cluster-admin': ['read', 'logs', 'run', 'write', 'secret:use', 'secret:write', 'grant', 'operate', 'audit', 'metrics', 'admin'],
}
