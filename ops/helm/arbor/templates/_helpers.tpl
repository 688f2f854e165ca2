{{- define "arbor.name" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 45 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 45 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "arbor.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "arbor.labels" -}}
{{ include "arbor.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "arbor.secret" -}}
{{- .Values.auth.existingSecret | default (include "arbor.name" .) -}}
{{- end -}}

{{/* The addresses of all members, the first one first: it founds the set. */}}
{{- define "arbor.members" -}}
{{- $hosts := list -}}
{{- range $number := until (int .Values.members) -}}
{{- $name := include "arbor.name" $ -}}
{{- $hosts = append $hosts (printf "%s-%d.%s-members.%s.svc.%s:%d" $name $number $name $.Release.Namespace $.Values.clusterDomain (int $.Values.port)) -}}
{{- end -}}
{{- join "," $hosts -}}
{{- end -}}
