{{/* Names the release's objects: "confrev", unless the release has another name. */}}
{{- define "confrev.fullname" -}}
{{- if contains "confrev" .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-confrev" .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "confrev.selectorLabels" -}}
app.kubernetes.io/name: confrev
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "confrev.labels" -}}
{{ include "confrev.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "confrev.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Where the API server finds a webhook. confrev puts its certificate there, or cert-manager does. */}}
{{- define "confrev.webhookClient" -}}
{{- with .root.Values.webhook.url -}}
url: {{ . | trimSuffix "/" }}{{ $.path }}
{{- else -}}
service:
  name: {{ include "confrev.fullname" .root }}
  namespace: {{ .root.Release.Namespace }}
  path: {{ .path }}
{{- end -}}
{{- end -}}

{{- define "confrev.injectCA" -}}
{{- if .Values.webhook.certManager.enabled -}}
annotations:
  cert-manager.io/inject-ca-from: {{ .Release.Namespace }}/{{ include "confrev.fullname" . }}-webhook
{{- end -}}
{{- end -}}

{{/*
One pin, source=revision@number. It is `form` of internal/pin/pin.go, without its groups; test/e2e/policy_test.go holds
the two to the same answers.
*/}}
{{- define "confrev.pinForm" -}}
^(configmap|secret)/[a-z0-9][a-z0-9.-]*=[a-z0-9][a-z0-9.-]*@[1-9][0-9]{0,14}$
{{- end -}}

{{/* Every namespace save the system's and confrev's own, so that neither can ever be in its own way (rule 18). */}}
{{- define "confrev.matchNamespaces" -}}
namespaceSelector:
  matchExpressions:
  - key: kubernetes.io/metadata.name
    operator: NotIn
    values: [kube-system, {{ .Release.Namespace }}]
{{- end -}}

{{- define "confrev.matchPods" -}}
{{ include "confrev.matchNamespaces" . }}
resourceRules:
- apiGroups: [""]
  apiVersions: [v1]
  resources: [pods]
  operations: [CREATE]
{{- end -}}

{{/* Other pods pay for this one look at their annotations. Conditions may not use a policy's variables. */}}
{{- define "confrev.matchPinned" -}}
- name: pinned
  expression: object.metadata.?annotations[?'confrev.io/pins'].orValue('') != ''
{{- end -}}

{{/*
The variables that both policies share: a pod's pins, parsed as internal/pin does, and its references, found as
internal/podspec does. test/e2e/policy_test.go holds CEL and Go to the same answers.
*/}}
{{- define "confrev.pinVariables" -}}
- name: list
  expression: object.metadata.annotations['confrev.io/pins'].split(',')
# Every pin is source=revision@number, and no source is pinned twice.
- name: wellFormed
  expression: >-
    variables.list.all(pin, pin.matches('{{ include "confrev.pinForm" . }}')) &&
    variables.list.map(pin, pin.split('=')[0]).distinct().size() == variables.list.size()
# The revision of each source: {'configmap/app': 'app-5f7d8c9b2k'}. Malformed pins resolve nothing, and are refused.
- name: pins
  expression: >-
    variables.wellFormed
    ? variables.list.transformMapEntry(_, pin, {pin.split('=')[0]: pin.split('=')[1].split('@')[0]})
    : {}
- name: containers
  expression: >-
    {'/spec/containers/': object.spec.containers == null ? [] : object.spec.containers,
     '/spec/initContainers/': object.spec.?initContainers.orValue([])}
# Every reference is [the path of the name, the source]. The pod is not validated yet: lists may be absent, or null
# where the API's types say so, and names may be absent.
- name: inVolumes
  expression: >-
    object.spec.?volumes.orValue([]).transformList(i, volume, has(volume.configMap) || has(volume.secret),
      has(volume.configMap)
      ? ['/spec/volumes/' + string(i) + '/configMap/name', 'configmap/' + volume.configMap.?name.orValue('')]
      : ['/spec/volumes/' + string(i) + '/secret/secretName', 'secret/' + volume.secret.?secretName.orValue('')])
- name: inProjections
  expression: >-
    object.spec.?volumes.orValue([]).transformList(i, volume, has(volume.projected) && volume.projected.sources != null,
      volume.projected.sources.transformList(j, from, has(from.configMap) || has(from.secret),
        has(from.configMap)
        ? ['/spec/volumes/' + string(i) + '/projected/sources/' + string(j) + '/configMap/name', 'configmap/' + from.configMap.?name.orValue('')]
        : ['/spec/volumes/' + string(i) + '/projected/sources/' + string(j) + '/secret/name', 'secret/' + from.secret.?name.orValue('')]
      )).flatten()
- name: inEnvFrom
  expression: >-
    variables.containers.transformList(path, containers, containers.transformList(i, container,
      container.?envFrom.orValue([]).transformList(j, from, has(from.configMapRef) || has(from.secretRef),
        has(from.configMapRef)
        ? [path + string(i) + '/envFrom/' + string(j) + '/configMapRef/name', 'configmap/' + from.configMapRef.?name.orValue('')]
        : [path + string(i) + '/envFrom/' + string(j) + '/secretRef/name', 'secret/' + from.secretRef.?name.orValue('')]
      ))).flatten(2)
- name: inEnv
  expression: >-
    variables.containers.transformList(path, containers, containers.transformList(i, container,
      container.?env.orValue([]).transformList(j, env, has(env.valueFrom) && (has(env.valueFrom.configMapKeyRef) || has(env.valueFrom.secretKeyRef)),
        has(env.valueFrom.configMapKeyRef)
        ? [path + string(i) + '/env/' + string(j) + '/valueFrom/configMapKeyRef/name', 'configmap/' + env.valueFrom.configMapKeyRef.?name.orValue('')]
        : [path + string(i) + '/env/' + string(j) + '/valueFrom/secretKeyRef/name', 'secret/' + env.valueFrom.secretKeyRef.?name.orValue('')]
      ))).flatten(2)
- name: pinned
  expression: >-
    (variables.inVolumes + variables.inProjections + variables.inEnvFrom + variables.inEnv)
    .filter(reference, reference[1] in variables.pins)
{{- end -}}

{{/*
Everyone but confrev and those that collect garbage, which have accounts of their own (--use-service-account-credentials)
or share the last one.
*/}}
{{- define "confrev.byOthers" -}}
- name: by-others
  expression: >-
    !(request.userInfo.username in {{ concat (list
      (printf "system:serviceaccount:%s:%s" .Release.Namespace (include "confrev.fullname" .))
      "system:serviceaccount:kube-system:generic-garbage-collector"
      "system:serviceaccount:kube-system:namespace-controller"
      "system:kube-controller-manager"
    ) .Values.guards.exemptUsers | toJson }})
{{- end -}}

{{/*
What a request does to a guarded object. In a namespace that is being deleted nothing is guarded: it must go whoever
clears it. To write the same again is no change, whatever becomes of managedFields.
*/}}
{{- define "confrev.whatHappens" -}}
- name: guarded
  expression: namespaceObject.status.phase != 'Terminating'
- name: deleted
  expression: variables.guarded && request.operation == 'DELETE'
- name: updated
  expression: variables.guarded && request.operation == 'UPDATE'
- name: relabelled
  expression: >-
    variables.updated &&
    (object.metadata.?labels.orValue({}) != oldObject.metadata.?labels.orValue({}) ||
     object.metadata.?annotations.orValue({}) != oldObject.metadata.?annotations.orValue({}))
- name: owners
  expression: oldObject.metadata.?ownerReferences.orValue([])
- name: disowned
  expression: variables.updated && object.metadata.?ownerReferences.orValue([]) != variables.owners
# A finalizer that is there already may be taken away.
- name: blocked
  expression: >-
    variables.updated &&
    object.metadata.?finalizers.orValue([]).exists(f, !(f in oldObject.metadata.?finalizers.orValue([])))
{{- end -}}
