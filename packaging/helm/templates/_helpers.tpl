{{- define "ingot.selector" -}}
app.kubernetes.io/name: ingot
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "ingot.labels" -}}
{{ include "ingot.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "ingot.image" -}}
{{- with .Values.image -}}
{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag }}{{ end }}
{{- end -}}
{{- end }}

{{/* The security context of every container: Pod Security "restricted", and a
read-only root file system. */}}
{{- define "ingot.container" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{- define "ingot.pod" -}}
runAsNonRoot: true
runAsUser: 2000
runAsGroup: 2000
fsGroup: 2000
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{/* Copies the files of the Secret into the data directory: the server requires
regular files that only its user can read. */}}
{{- define "ingot.secretFiles" -}}
- name: secrets
  image: {{ include "ingot.image" . }}
  imagePullPolicy: {{ .Values.image.pullPolicy }}
  command: [/bin/sh, -euc]
  args:
  - umask 077; mkdir -p /var/lib/ingot/secrets; for file in /secrets/*; do cat "$file" >"/var/lib/ingot/secrets/${file##*/}"; done
  resources:
    requests: {cpu: 10m, memory: 32Mi, ephemeral-storage: 16Mi}
    limits: {memory: 64Mi, ephemeral-storage: 64Mi}
  securityContext:
    {{- include "ingot.container" . | nindent 4 }}
  volumeMounts:
  - {name: data, mountPath: /var/lib/ingot}
  - {name: secrets, mountPath: /secrets, readOnly: true}
{{- end }}

{{- define "ingot.volumes" -}}
- name: data
  emptyDir: {sizeLimit: {{ .Values.dataSize }}}
- name: tmp
  emptyDir: {sizeLimit: 2Gi}
- name: secrets
  secret: {secretName: {{ .Values.secretFiles.name }}, defaultMode: 0440}
{{- end }}
