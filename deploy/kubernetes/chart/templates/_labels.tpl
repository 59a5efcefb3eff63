{{/* The labels that select the pods of this release's nodes. */}}
{{- define "rota.selector" -}}
app.kubernetes.io/name: rota
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}
{{- define "rota.labels" -}}
{{ include "rota.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}
{{/* The ports in the URLs of etcd, without repetition. */}}
{{- define "rota.etcdPorts" -}}
{{- $ports := list }}
{{- range .Values.etcd }}
{{- $named := regexFind ":[0-9]+/?$" . | trimPrefix ":" | trimSuffix "/" }}
{{- $ports = append $ports ($named | default (hasPrefix "https" . | ternary "443" "80") | int) }}
{{- end }}
{{- $ports | uniq | toYaml }}
{{- end }}
