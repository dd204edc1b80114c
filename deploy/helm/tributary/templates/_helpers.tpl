{{- define "tributary.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* It is a Service's, too, whose name begins with a letter before Kubernetes 1.34. */}}
{{- define "tributary.fullname" -}}
{{- $name := .Values.fullnameOverride -}}
{{- if not $name -}}
{{- $name = .Release.Name -}}
{{- if not (contains (include "tributary.name" .) $name) -}}
{{- $name = printf "%s-%s" $name (include "tributary.name" .) -}}
{{- end -}}
{{- end -}}
{{- if regexMatch "^[0-9]" $name -}}
{{- $name = printf "tributary-%s" $name -}}
{{- end -}}
{{- $name | replace "." "-" | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* What has no namespace is named after both, so that two installations do not meet. */}}
{{- define "tributary.clusterwide" -}}
{{- printf "%s.%s" (include "tributary.fullname" .) .Release.Namespace -}}
{{- end -}}

{{- define "tributary.account" -}}
{{- default (include "tributary.fullname" .) .Values.serviceAccount.name -}}
{{- end -}}

{{- define "tributary.selector" -}}
app.kubernetes.io/name: {{ include "tributary.name" . | toYaml }}
app.kubernetes.io/instance: {{ toYaml .Release.Name }}
{{- end -}}

{{- define "tributary.labels" -}}
{{ include "tributary.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name (.Chart.Version | replace "+" "_") }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* The same and more, of a list of the root and these. */}}
{{- define "tributary.labelled" -}}
{{- toYaml (merge (dict) (default dict (last .)) (include "tributary.labels" (first .) | fromYaml)) -}}
{{- end -}}

{{- define "tributary.image" -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}
{{- end -}}

{{/* Nine tenths of the limit, in MiB; the schema allows whole Mi and Gi. */}}
{{- define "tributary.gomemlimit" -}}
{{- $limit := .Values.resources.limits.memory -}}
{{- $mib := trimSuffix "Mi" $limit | atoi -}}
{{- if hasSuffix "Gi" $limit -}}
{{- $mib = mul 1024 (trimSuffix "Gi" $limit | atoi) -}}
{{- end -}}
{{- printf "%dMiB" (div (mul 9 $mib) 10) -}}
{{- end -}}

{{- define "tributary.priorityClass" -}}
{{- if (.Values.priorityClass).name -}}
{{- .Values.priorityClass.name -}}
{{- else if (.Values.priorityClass).create -}}
{{- include "tributary.clusterwide" . -}}
{{- end -}}
{{- end -}}

{{- define "tributary.config" -}}
{{- dig "config" dict .Values.AsMap | toYaml -}}
{{- end -}}

{{/* What the configuration says, its defaults put in, where the manifests depend on it. */}}
{{- define "tributary.instance" -}}
{{- dig "instance" "default" (include "tributary.config" . | fromYaml) -}}
{{- end -}}

{{/* Where Tributary keeps its Lease and its record of identities. */}}
{{- define "tributary.ownNamespace" -}}
{{- dig "namespace" .Release.Namespace (include "tributary.config" . | fromYaml) -}}
{{- end -}}

{{/* The namespaces of ingress.namespaces, separated by spaces; empty where one is a glob, or none is named. */}}
{{- define "tributary.namespaces" -}}
{{- $names := dig "ingress" "namespaces" list (include "tributary.config" . | fromYaml) -}}
{{- if not (regexMatch "[*?\\[]" (join " " $names)) -}}
{{- join " " $names -}}
{{- end -}}
{{- end -}}

{{/* The values of a former release, which --reuse-values keeps, have no metrics. */}}
{{- define "tributary.metricsPort" -}}
{{- $port := dig "metrics" "port" 9441 .Values.AsMap -}}
{{- if hasSuffix (printf ":%v" $port) (dig "listen" "127.0.0.1:9440" (include "tributary.config" . | fromYaml)) -}}
{{- fail "metrics.port: everything else is served at this port (config.listen); choose another one" -}}
{{- end -}}
{{- $port -}}
{{- end -}}

{{- define "tributary.writesEndpoints" -}}
{{- if has "Endpoints" (dig "replicas" "write" (list "Endpoints") (include "tributary.config" . | fromYaml)) -}}true{{- end -}}
{{- end -}}

{{- define "tributary.createsNamespaces" -}}
{{- if dig "replicas" "createNamespaces" true (include "tributary.config" . | fromYaml) -}}true{{- end -}}
{{- end -}}

{{- define "tributary.openshift" -}}
{{- if or (dig "openshift" false .Values.AsMap) (.Capabilities.APIVersions.Has "security.openshift.io/v1") -}}true{{- end -}}
{{- end -}}

{{/* What is read in the whole cluster: a name that somebody else has is known before it is written. */}}
{{- define "tributary.reads" -}}
- apiGroups: [""]
  resources: [services, endpoints]
  verbs: [get, list, watch]
- apiGroups: [discovery.k8s.io]
  resources: [endpointslices]
  verbs: [get, list, watch]
- apiGroups: [""]
  resources: [namespaces]
  verbs: [get, list, watch{{ if include "tributary.createsNamespaces" . }}, create{{ end }}]
{{- end -}}

{{/* What is written wherever replicas are, for a ClusterRole or a Role. */}}
{{- define "tributary.writes" -}}
- apiGroups: [""]
  resources: [services{{ if include "tributary.writesEndpoints" . }}, endpoints{{ end }}]
  verbs: [create, update, delete]
- apiGroups: [discovery.k8s.io]
  resources: [endpointslices]
  verbs: [create, update, delete]
{{- if include "tributary.openshift" . }}
{{- if include "tributary.writesEndpoints" . }}
- apiGroups: [""]
  resources: [endpoints/restricted] # addresses of OpenShift's own pod and service networks
  verbs: [create]
{{- end }}
- apiGroups: [discovery.k8s.io]
  resources: [endpointslices/restricted]
  verbs: [create]
{{- end }}
- apiGroups: [""]
  resources: [events] # conflicts, on the replica
  verbs: [create]
{{- end -}}

{{/* Where alerts and dashboards lead as they are made, and where they are to. */}}
{{- define "tributary.runbooks" -}}https://tributary.dev/docs/operations.md{{- end -}}

{{- define "tributary.runbookURL" -}}
{{- dig "monitoring" "runbookURL" "" .Values.AsMap | default (include "tributary.runbooks" .) -}}
{{- end -}}
