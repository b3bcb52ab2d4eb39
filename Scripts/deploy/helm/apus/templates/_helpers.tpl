{{- define "apus.name" -}}
{{- if contains "apus" .Release.Name }}{{ .Release.Name | trunc 40 | trimSuffix "-" }}{{ else }}{{ printf "%s-apus" .Release.Name | trunc 40 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "apus.selector" -}}
app.kubernetes.io/name: apus
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: apus-{{ .service }}
{{- end }}

{{- define "apus.labels" -}}
{{ include "apus.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end }}

{{- define "apus.image" -}}
{{ .Values.image.repository }}:{{ default .Chart.AppVersion .Values.image.tag }}
{{- end }}

{{- /* "true" when the admin ports speak HTTPS, else empty. */ -}}
{{- define "apus.hasAdminTLS" -}}
{{- if dig "admin" "tls" "certificate_file" "" .Values.configuration }}true{{ end }}
{{- end }}

{{- /* The ports that Redis is reached at, with commas: networkPolicy.redis.ports, or those of the address. */ -}}
{{- define "apus.redisPorts" -}}
{{- $url := .Values.configuration.redis.url -}}
{{- $isSentinel := contains "+sentinel://" $url -}}
{{- $authority := regexFind "^[^/?]*" (regexReplaceAll "^[a-z+]+://" $url "") -}}
{{- $named := list -}}
{{- range splitList "," (regexReplaceAll "^.*@" $authority "") -}}
{{- $port := regexFind ":[0-9]+$" . | trimPrefix ":" -}}
{{- $named = append $named (default (ternary "26379" "6379" $isSentinel) $port) -}}
{{- end -}}
{{- $given := list -}}
{{- range .Values.networkPolicy.redis.ports }}{{ $given = append $given (toString .) }}{{ end -}}
{{- range $named -}}
{{- if and $given (not (has . $given)) -}}
{{- fail (printf "networkPolicy.redis.ports lacks %s, which configuration.redis.url names: the services could not reach Redis" .) -}}
{{- end -}}
{{- end -}}
{{- if not $given }}{{ $given = $named }}{{ if $isSentinel }}{{ $given = append $given "6379" }}{{ end }}{{ end -}}
{{- $given | uniq | sortAlpha | join "," -}}
{{- end }}

{{- /* What a pod may do: nothing but use sockets and read its files. */ -}}
{{- define "apus.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "apus.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{- /* A service: its Deployment, the Service of its admin port, and its PodDisruptionBudget.
       root: the chart; service: registration, dispatcher or feedback; admin: the admin port. */ -}}
{{- define "apus.workload" -}}
{{- $settings := index .root.Values .service -}}
{{- $name := printf "%s-%s" (include "apus.name" .root) .service -}}
{{- $hasAdminTLS := include "apus.hasAdminTLS" .root -}}
{{- $isScaled := and (eq .service "dispatcher") .root.Values.autoscaling.enabled -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ $name }}
  labels: {{- include "apus.labels" . | nindent 4 }}
spec:
  {{- if not $isScaled }}
  replicas: {{ $settings.replicas }}
  {{- end }}
  strategy:
    type: RollingUpdate
    rollingUpdate: {maxUnavailable: 0, maxSurge: 1}
  selector:
    matchLabels: {{- include "apus.selector" . | nindent 6 }}
  template:
    metadata:
      labels: {{- include "apus.labels" . | nindent 8 }}
      annotations:
        # A changed configuration counts from a service's next start. Changed Secrets are read while it runs.
        checksum/configuration: {{ toYaml .root.Values.configuration | sha256sum }}
    spec:
      serviceAccountName: {{ include "apus.name" .root }}
      automountServiceAccountToken: false
      enableServiceLinks: false
      # preStop, then drain_timeout and five seconds, and ten to spare.
      terminationGracePeriodSeconds: {{ add $settings.preStopSeconds .root.Values.drainTimeoutSeconds 15 }}
      securityContext: {{- include "apus.podSecurity" . | nindent 8 }}
      {{- with .root.Values.imagePullSecrets }}
      imagePullSecrets: {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $settings.priorityClassName }}
      priorityClassName: {{ . }}
      {{- end }}
      {{- with $settings.nodeSelector }}
      nodeSelector: {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $settings.tolerations }}
      tolerations: {{- toYaml . | nindent 8 }}
      {{- end }}
      topologySpreadConstraints:
        - maxSkew: 1
          topologyKey: kubernetes.io/hostname
          whenUnsatisfiable: ScheduleAnyway
          labelSelector:
            matchLabels: {{- include "apus.selector" . | nindent 14 }}
      containers:
        - name: {{ .service }}
          image: {{ include "apus.image" .root }}
          imagePullPolicy: {{ .root.Values.image.pullPolicy }}
          command: [apus-{{ .service }}, --config, /etc/apus/apus.yaml]
          env:
            - {name: APUS_ADMIN_LISTEN, value: "0.0.0.0:{{ .admin }}"}
            - {name: APUS_DRAIN_TIMEOUT, value: {{ .root.Values.drainTimeoutSeconds }}s}
            - {name: APUS_EVENT_LOOPS, value: {{ $settings.eventLoops | quote }}}
            {{- if eq .service "registration" }}
            - {name: APUS_REGISTRATION_LISTEN, value: "0.0.0.0:8180"}
            {{- end }}
            {{- with $settings.redisUser }}
            - {name: APUS_REDIS_USER, value: {{ . | quote }}}
            {{- end }}
          ports:
            - {name: admin, containerPort: {{ .admin }}}
            {{- if eq .service "registration" }}
            - {name: api, containerPort: 8180}
            {{- end }}
          securityContext: {{- include "apus.containerSecurity" . | nindent 12 }}
          resources: {{- toYaml $settings.resources | nindent 12 }}
          startupProbe:
            httpGet: {path: /startupz, port: admin{{ if $hasAdminTLS }}, scheme: HTTPS{{ end }}}
            periodSeconds: 2
            failureThreshold: 60
            timeoutSeconds: 3
          # Alive: every event loop answers. Redis does not count here, since a restart would not bring it back.
          livenessProbe:
            httpGet: {path: /healthz, port: admin{{ if $hasAdminTLS }}, scheme: HTTPS{{ end }}}
            periodSeconds: 10
            failureThreshold: 3
            timeoutSeconds: 5
          readinessProbe:
            httpGet: {path: /readyz, port: admin{{ if $hasAdminTLS }}, scheme: HTTPS{{ end }}}
            periodSeconds: 5
            failureThreshold: 2
            timeoutSeconds: 3
          {{- if $settings.preStopSeconds }}
          lifecycle:
            preStop: {exec: {command: [sleep, {{ $settings.preStopSeconds | quote }}]}}
          {{- end }}
          volumeMounts:
            - {name: configuration, mountPath: /etc/apus, readOnly: true}
            {{- if index .root.Values.secrets .service }}
            - {name: secrets, mountPath: /run/secrets/apus, readOnly: true}
            {{- end }}
      volumes:
        - name: configuration
          configMap: {name: {{ include "apus.name" .root }}}
        {{- with index .root.Values.secrets .service }}
        - name: secrets
          projected:
            defaultMode: 0440
            sources:
              {{- range . }}
              - secret: {name: {{ . }}}
              {{- end }}
        {{- end }}
---
apiVersion: v1
kind: Service
metadata:
  name: {{ $name }}-admin
  labels: {{- include "apus.labels" . | nindent 4 }}
spec:
  # An autoscaler must be told also by a pod that is not ready.
  publishNotReadyAddresses: true
  selector: {{- include "apus.selector" . | nindent 4 }}
  ports:
    - {name: admin, port: {{ .admin }}, targetPort: admin}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ $name }}
  labels: {{- include "apus.labels" . | nindent 4 }}
spec:
  maxUnavailable: 1
  selector:
    matchLabels: {{- include "apus.selector" . | nindent 6 }}
{{- end }}
