{{/*
The name of the release's objects: "confrev", unless the release has another name. With "-release-sources", it is the name of a Job, which
has at most 63 characters.
*/}}
{{- define "confrev.fullname" -}}
{{- if not (and .Values.service .Values.hooks) -}}
{{- fail "these are the values of an earlier chart, without those that it did not have: upgrade with --reset-then-reuse-values in place of --reuse-values" -}}
{{- end -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 47 | trimSuffix "-" -}}
{{- else if contains "confrev" .Release.Name -}}
{{- .Release.Name | trunc 47 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-confrev" .Release.Name | trunc 47 | trimSuffix "-" -}}
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
{{- /* Flux appends "+" and a digest to the version, and a label has no "+". */}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | regexFind "^.*[a-zA-Z0-9]" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* The account that confrev runs as. The policies confine it, and let it through, by this name. */}}
{{- define "confrev.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- .Values.serviceAccount.name | default (include "confrev.fullname" .) -}}
{{- else -}}
{{- required "serviceAccount.name: the account that confrev runs as, since serviceAccount.create is false" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/* The registry of all charts takes the place of the first part of the repository, if that is a host. */}}
{{- define "confrev.image" -}}
{{- with .Values.image -}}
{{- $repository := .repository -}}
{{- with $.Values.global.imageRegistry -}}
{{- $repository = printf "%s/%s" (trimSuffix "/" .) (regexReplaceAll "^[^/]*[.:][^/]*/" $repository "") -}}
{{- end -}}
{{- if .digest -}}
{{ $repository }}@{{ .digest }}
{{- else -}}
{{ $repository }}:{{ .tag | default $.Chart.AppVersion }}
{{- end -}}
{{- end -}}
{{- end -}}

{{/*
How the API server reaches a webhook. confrev or cert-manager adds the certificate, and confrev adds the path if it is secret.
*/}}
{{- define "confrev.webhookClient" -}}
{{- with .root.Values.webhook.url -}}
{{- $url := printf "%s%s" (trimSuffix "/" .) $.path -}}
{{- /* A URL includes the path, so an upgrade must keep the one that confrev wrote. If Helm cannot ask an API server, confrev writes it again. */ -}}
{{- $live := lookup "admissionregistration.k8s.io/v1" "MutatingWebhookConfiguration" "" (printf "%s-pin-workloads" (include "confrev.fullname" $.root)) -}}
{{- if and $live (eq $.path "") -}}
{{- $told := dig "clientConfig" "url" "" (first $live.webhooks) -}}
{{- if hasPrefix (printf "%s/pin-workloads/" $url) $told -}}
{{- $url = $told -}}
{{- end -}}
{{- end -}}
url: {{ $url }}
{{- else -}}
service:
  name: {{ include "confrev.fullname" .root }}
  namespace: {{ .root.Release.Namespace }}
  {{- with .path }}
  path: {{ . }}
  {{- end }}
{{- end -}}
{{- end -}}

{{/*
Refuses a second release under another name: two controllers would pin the same workloads. One under the same name cannot be installed:
Helm finds that the objects are another's. `helm template` has no API server to ask.
*/}}
{{- define "confrev.onlyRelease" -}}
{{- $suffix := "-refuse-unresolved-pins" -}}
{{- $policies := dict -}}
{{- /* In single namespaces, an installer may not ask. */ -}}
{{- if not .Values.watchNamespaces -}}
{{- $policies = lookup "admissionregistration.k8s.io/v1" "ValidatingAdmissionPolicy" "" "" -}}
{{- end -}}
{{- range $policies.items -}}
{{- $notes := .metadata.annotations | default dict -}}
{{- $release := dig "meta.helm.sh/release-name" "" $notes -}}
{{- $namespace := dig "meta.helm.sh/release-namespace" "" $notes -}}
{{- $same := and (eq $release $.Release.Name) (eq $namespace $.Release.Namespace) -}}
{{- $confrevs := and (hasSuffix $suffix .metadata.name) (eq (dig "app.kubernetes.io/name" "" (.metadata.labels | default dict)) "confrev") -}}
{{- if and $confrevs (not $same) (ne .metadata.name (printf "%s%s" (include "confrev.fullname" $) $suffix)) -}}
{{- fail (printf "confrev is installed in this cluster already (%s; ValidatingAdmissionPolicy %s), and two controllers would pin the same workloads: upgrade or uninstall that one" (ternary (printf "release %s in namespace %s" $release $namespace) "without Helm" (ne $release "")) .metadata.name) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/*
Whether a Job releases sources when the release is deleted. Where the chart may not create roles, it has no rights.
*/}}
{{- define "confrev.releasesSources" -}}
{{- if and .Values.hooks.releaseSources.enabled .Values.rbac.create -}}
true
{{- end -}}
{{- end -}}

{{/* Where pods of the chart run, and what they may do there. */}}
{{- define "confrev.placement" -}}
{{- with concat .Values.imagePullSecrets .Values.global.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- if .Values.hostNetwork }}
hostNetwork: true
{{- end }}
{{- with .Values.dnsPolicy | default (ternary "ClusterFirstWithHostNet" "" .Values.hostNetwork) }}
dnsPolicy: {{ . }}
{{- end }}
{{- with .Values.runtimeClassName }}
runtimeClassName: {{ . }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
securityContext:
  {{- toYaml .Values.podSecurityContext | nindent 2 }}
{{- with .Values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "confrev.injectCA" -}}
{{- if .Values.webhook.certManager.enabled -}}
annotations:
  cert-manager.io/inject-ca-from: {{ .Release.Namespace }}/{{ include "confrev.fullname" . }}-webhook
{{- end -}}
{{- end -}}

{{/*
One pin, source=revision@number. It is `form` of internal/pin/pin.go, without its groups; test/e2e/policy_test.go compares
the two.
*/}}
{{- define "confrev.pinForm" -}}
^(configmap|secret)/[a-z0-9][a-z0-9.-]*=[a-z0-9][a-z0-9.-]*@[1-9][0-9]{0,14}$
{{- end -}}

{{/*
Whether every pin names a revision of its source, and none is of a source that the cluster itself keeps writing (rule 10). A right to
annotate a pod must not be a right to choose what it mounts. It is `checkNames` of internal/pin/pin.go; test/e2e/policy_test.go
compares the two. variables.parts are the pins: [source, revision, number].
*/}}
{{- define "confrev.pinsNameRevisions" -}}
variables.parts.all(part,
  !(part[0] in ['configmap/kube-root-ca.crt', 'configmap/openshift-service-ca.crt', 'configmap/istio-ca-root-cert']) &&
  {{ include "confrev.revisionName" (list "part[0].split('/')[1]" "part[1]") | nindent 2 | trim }})
{{- end -}}

{{/*
Whether an object has the form of a revision of a source. It is IsRevision of internal/revision and Names of internal/pin;
test/e2e/guards_test.go compares them.
*/}}
{{- define "confrev.revisionForm" -}}
{{ . }}.?immutable.orValue(false) == true &&
{{ . }}.metadata.?labels[?'confrev.io/content'].orValue('').matches('^(v1|k1-[a-z2-7]{7})-[a-z2-7]{52}$') &&
{{ . }}.metadata.?annotations[?'confrev.io/source-name'].orValue('').matches('^[a-z0-9][a-z0-9.-]*$') &&
{{ include "confrev.revisionName" (list (printf "%s.metadata.annotations['confrev.io/source-name']" .) (printf "%s.metadata.name" .)) }}
{{- end -}}

{{/* Whether a name has the form of the name of a source's revision. */}}
{{- define "confrev.revisionName" -}}
{{- $source := index . 0 -}}
{{- $name := index . 1 -}}
{{ $name }}.matches('-[bcdfghjklmnpqrstvwxz2456789]{10}$') &&
{{ $name }}.substring(0, {{ $name }}.size() - 11) ==
({{ $source }}.size() <= 242 ? {{ $source }} : {{ $source }}.substring(0, 242).find('^.*[^-.]'))
{{- end -}}

{{/* Every namespace except the system's and confrev's own, so that neither can ever block itself (rule 18). */}}
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

{{/* For other pods, only the annotations are checked. */}}
{{- define "confrev.matchPinned" -}}
- name: pinned
  expression: object.metadata.?annotations[?'confrev.io/pins'].orValue('') != ''
{{- end -}}

{{/*
What resolves pins when pods are created: "policy" if the API server serves MutatingAdmissionPolicy, otherwise "webhook". If
Helm cannot ask an API server (helm template), it is "webhook", which works everywhere.
*/}}
{{- define "confrev.podAdmission" -}}
{{- if .Values.watchNamespaces -}}
off
{{- else -}}
{{- $chosen := .Values.podAdmission -}}
{{- if eq $chosen "auto" -}}
{{- $chosen = ternary "policy" "webhook" (.Capabilities.APIVersions.Has "admissionregistration.k8s.io/v1/MutatingAdmissionPolicy") -}}
{{- end -}}
{{- if and (eq $chosen "webhook") (not .Values.webhook.enabled) -}}
{{- fail "the webhook should resolve pins in pods (value podAdmission; the API server may not serve MutatingAdmissionPolicy), which requires webhook.enabled" -}}
{{- end -}}
{{- $chosen -}}
{{- end -}}
{{- end -}}

{{/* Whether confrev serves its webhooks: "true" or nothing. */}}
{{- define "confrev.webhook" -}}
{{- if and .Values.webhook.enabled (not .Values.watchNamespaces) -}}
true
{{- end -}}
{{- end -}}

{{/* Where pins are applied. In single namespaces, nothing resolves pins when pods are created. */}}
{{- define "confrev.injection" -}}
{{- .Values.injection | default (ternary "template" "admission" (not (empty .Values.watchNamespaces))) -}}
{{- end -}}

{{/* What to check if pins were not applied. */}}
{{- define "confrev.resolver" -}}
{{- if eq (include "confrev.podAdmission" .) "policy" -}}
MutatingAdmissionPolicy {{ include "confrev.fullname" . }}-resolve-pins and its binding
{{- else -}}
MutatingWebhookConfiguration {{ include "confrev.fullname" . }}-resolve-pins
{{- end -}}
{{- end -}}

{{/*
Everyone but confrev and garbage collectors, which have accounts of their own (--use-service-account-credentials)
or share the last one.
*/}}
{{- define "confrev.byOthers" -}}
- name: by-others
  expression: >-
    !(request.userInfo.username in {{ concat (list
      (printf "system:serviceaccount:%s:%s" .Release.Namespace (include "confrev.serviceAccount" .))
      "system:serviceaccount:kube-system:generic-garbage-collector"
      "system:serviceaccount:kube-system:namespace-controller"
      "system:kube-controller-manager"
    ) .Values.guards.exemptUsers | toJson }})
{{- end -}}

{{/*
What a request does to a guarded object. In a namespace that is being deleted, nothing is guarded, so that anyone may empty it.
Writing the same values again is not a change, even if it changes managedFields.
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
# Garbage collection does not delete what has no owners.
- name: collectible
  expression: variables.disowned && object.metadata.?ownerReferences.orValue([]).size() > 0
# An existing finalizer may be removed.
- name: blocked
  expression: >-
    variables.updated &&
    object.metadata.?finalizers.orValue([]).exists(f, !(f in oldObject.metadata.?finalizers.orValue([])))
{{- end -}}

{{/*
The resources that confrev.io/restart-on may name. Each must be listed: a wildcard would grant more than anyone intended, and
ConfigMaps and Secrets are sources.
*/}}
{{- define "confrev.restartOn" -}}
{{- $all := list -}}
{{- range $rule := .Values.restartOn -}}
{{- range $group := $rule.apiGroups -}}
{{- range $resource := $rule.resources -}}
{{- $name := ternary $resource (printf "%s.%s" $resource $group) (eq $group "") -}}
{{- if or (contains "*" $name) (contains "/" $name) (has $name (list "configmaps" "secrets")) -}}
{{- fail (printf "restartOn: %q cannot be listed. Name resources by their plural and their group; ConfigMaps and Secrets need no listing" $name) -}}
{{- end -}}
{{- $all = append $all $name -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- join "," $all -}}
{{- end -}}

{{/*
The kinds of workloads whose pod templates confrev patches, in the form of the value `workloads`, which adds more. Rights, confinement
and the webhook's rules range over this list. docs/confinement_test.go compares it with internal/workload.
*/}}
{{- define "confrev.workloads" -}}
- {group: apps, version: v1, kind: Deployment, plural: deployments, holder: {group: apps, plural: replicasets}}
- {group: apps, version: v1, kind: StatefulSet, plural: statefulsets, holder: {group: apps, plural: controllerrevisions}}
- {group: apps, version: v1, kind: DaemonSet, plural: daemonsets, holder: {group: apps, plural: controllerrevisions}}
- {group: batch, version: v1, kind: CronJob, plural: cronjobs, template: spec.jobTemplate.spec.template, holder: {group: batch, plural: jobs}}
- {group: argoproj.io, version: v1alpha1, kind: Rollout, plural: rollouts, holder: {group: apps, plural: replicasets}}
{{- with .Values.workloads }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/*
Whether anything on a workload or its pod template, as it will be or as it was, is confrev's or was written for it. What has been pinned once
has such a key. The optional fields of a path are absent in other kinds.
*/}}
{{- define "confrev.keyed" -}}
{{- $paths := list -}}
{{- range include "confrev.workloads" . | fromYamlArray -}}
{{- $paths = append $paths (printf "o.?%s.?metadata.?annotations" (.template | default "spec.template" | replace "." ".?")) -}}
{{- end -}}
- name: keyed
  expression: >-
    [object, oldObject].exists(o, o != null &&
      [o.metadata.?annotations, o.metadata.?labels, {{ uniq $paths | join ", " }}]
      .exists(m, m.orValue({}).exists(k, k.startsWith('confrev.io/')
      {{- if .Values.compat }} || {{ include "confrev.otherTools" . }}{{ end }})))
{{- end -}}

{{/* Whether key k is one of the annotations of other tools that opt in (value compat). */}}
{{- define "confrev.otherTools" -}}
k.matches('^[^/]*reloader[.]stakater[.]com/|^wave[.]pusher[.]com/')
{{- end -}}
