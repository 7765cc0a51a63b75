{{- define "tributary.name" -}}
{{- if contains "tributary" .Release.Name -}}
{{ .Release.Name | trunc 63 | trimSuffix "-" }}
{{- else -}}
{{ printf "%s-tributary" .Release.Name | trunc 63 | trimSuffix "-" }}
{{- end -}}
{{- end }}

{{- define "tributary.selector" -}}
app.kubernetes.io/name: tributary
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "tributary.labels" -}}
{{ include "tributary.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- /* The settings file. Mistakes that the schema of the values cannot see end the installation. */ -}}
{{- define "tributary.settings" -}}
{{- $values := .Values -}}
{{- if and (not $values.client.tlsSecret) (not $values.client.insecure) -}}
{{- fail "client.tlsSecret is not set: name a Secret of type kubernetes.io/tls, or set client.insecure: true" -}}
{{- end -}}
{{- if and $values.client.mutualTls (not $values.client.tlsSecret) -}}
{{- fail "client.mutualTls needs client.tlsSecret with a ca.crt" -}}
{{- end -}}
{{- $client := dict "host" "0.0.0.0" "port" $values.client.port -}}
{{- if $values.client.tlsSecret -}}
{{- $tls := dict "cert" "/etc/tributary-tls/tls.crt" "key" "/etc/tributary-tls/tls.key" -}}
{{- if $values.client.mutualTls -}}{{- $_ := set $tls "client_ca" "/etc/tributary-tls/ca.crt" -}}{{- end -}}
{{- $_ := set $client "tls" $tls -}}
{{- else -}}
{{- $_ := set $client "insecure" true -}}
{{- end -}}
{{- $admin := dict "host" "127.0.0.1" "port" $values.metrics.port -}}
{{- if $values.metrics.tokenSecret -}}
{{- $admin = dict "host" "0.0.0.0" "port" $values.metrics.port "token_file" "/etc/tributary-admin/token" -}}
{{- end -}}
{{- $limits := dict "drain_grace" (printf "%ds" (int $values.client.drainGraceSeconds)) -}}
{{- $own := dict "authority_map" "/etc/tributary/authority-map.yaml" "client" $client "admin" $admin "limits" $limits -}}
{{- $_ := set $own "probe" (dict "host" "0.0.0.0" "port" $values.probes.port) -}}
{{- if $values.nats.enabled -}}
{{- $nats := dict "servers" $values.nats.servers "cluster" $values.nats.cluster -}}
{{- if $values.nats.user -}}{{- $_ := set $nats "user" $values.nats.user -}}{{- end -}}
{{- if $values.nats.passwordSecret -}}{{- $_ := set $nats "password_file" "/etc/tributary-nats/password" -}}{{- end -}}
{{- if $values.nats.tlsSecret -}}
{{- $tls := dict "ca" "/etc/tributary-nats-tls/ca.crt" -}}
{{- if $values.nats.clientCertificate -}}
{{- $_ := set $tls "cert" "/etc/tributary-nats-tls/tls.crt" -}}
{{- $_ := set $tls "key" "/etc/tributary-nats-tls/tls.key" -}}
{{- end -}}
{{- $_ := set $nats "tls" $tls -}}
{{- end -}}
{{- $_ := set $own "nats" $nats -}}
{{- end -}}
{{ toYaml (mergeOverwrite (deepCopy $values.settings) $own) }}
{{- end }}
