{{/*
The keys that confrev's own account may write, by place. A further key is a further line. docs/rules/writes.md has the same list
("What confrev writes"), and internal/keys the keys; docs/confinement_test.go compares the three.
*/}}
{{- define "confrev.written" -}}
# The annotations of a workload.
workload:
- confrev.io/advanced
- confrev.io/hashes
- confrev.io/held
- confrev.io/held-hashes
# Only the webhook pauses, in a user's own request. confrev itself ends the pause.
workloadRemoved:
- confrev.io/paused
# The annotations of a pod template.
template:
- confrev.io/hashes
- confrev.io/pins
# The labels and annotations of a source. Those that are removed may also be added if the source asks to be attached.
sourceLabels:
- confrev.io/source
sourceRemoved:
- confrev.io/attached
# The labels of a revision, which never change, its annotations, and those of them that never change.
revisionLabels:
- confrev.io/content
- confrev.io/source
revision:
- confrev.io/number
- confrev.io/propagation
- confrev.io/renewed
- confrev.io/source-version
revisionOnce:
- confrev.io/keys
- confrev.io/source-name
- kubernetes.io/change-cause
# Each of these on a workload, as annotation or label, is consent to what confrev writes there. confrev cannot write them itself.
consent:
- confrev.io/mode
- confrev.io/owners
- confrev.io/restart-on
- confrev.io/track
{{- end -}}

{{- define "confrev.byConfrev" -}}
- name: by-confrev
  expression: request.userInfo.username == 'system:serviceaccount:{{ .Release.Namespace }}:{{ include "confrev.serviceAccount" . }}'
{{- end -}}

{{/* confrev may not write in the excluded namespaces: the system's and its own (rule 18). */}}
{{- define "confrev.elsewhere" -}}
- expression: "!(request.namespace in ['kube-system', '{{ .Release.Namespace }}'])"
  reason: Forbidden
  message: confrev may not write in kube-system and in its own namespace
{{- end -}}

{{/* Whether a workload had opted in before the request, by keys that confrev's own account cannot write. */}}
{{- define "confrev.consent" -}}
- name: says
  expression: >-
    [variables.oNotes, {{ include "confrev.field" (dict "of" "variables.oMeta" "name" "labels") }}]
- name: namespaceSays
  expression: '[namespaceObject.metadata.?annotations.orValue({}), namespaceObject.metadata.?labels.orValue({})]'
- name: consent
  expression: >-
    !variables.says.exists(m, m[?'confrev.io/track'].orValue('') == 'none') &&
    (variables.says.exists(m, {{ (include "confrev.written" . | fromYaml).consent | toJson }}.exists(k, k in m)) ||
     variables.namespaceSays.exists(m, m[?'confrev.io/track'].orValue('') == 'all' || m[?'confrev.io/owners'].orValue('') == 'true')
     {{- with .Values.compat }} ||
     [variables.oNotes, variables.oTemplateNotes].exists(m, m.exists(k, {{ include "confrev.otherTools" . }}))
     {{- end }})
{{- end -}}

{{/* A field of a map, or a default if it is absent or null: an empty map, or the given list. */}}
{{- define "confrev.field" -}}
({{ .of }}[?'{{ .name }}'].orValue(null) != null ? {{ .of }}['{{ .name }}'] : dyn({{ .else | default "{}" }}))
{{- end -}}

{{/*
The keys in which two maps differ, as paths: added, changed or removed, and neither free nor tolerated. Null counts as absent.
Maps are compared key by key, so that a field which a later version of an API adds is covered too.
*/}}
{{- define "confrev.differences" -}}
{{- $tolerated := list -}}
{{- range .root.Values.selfConfinement.tolerate -}}
{{- if hasPrefix $.path . -}}{{- $tolerated = append $tolerated (trimPrefix $.path .) -}}{{- end -}}
{{- end -}}
{{- $free := concat .free $tolerated | default list -}}
({{ .new }}.filter(k, !(k in {{ toJson $free }}) && !({{ .old }}[?k].orValue(null) == {{ .new }}[k]))
 + {{ .old }}.filter(k, !(k in {{ concat $free (.removed | default list) | default list | toJson }}) && !(k in {{ .new }}) && {{ .old }}[k] != null)
).map(k, '{{ .path }}' + k)
{{- end -}}

{{/* Whether two maps have the same keys and, with exceptions, the same values. */}}
{{- define "confrev.sameBut" -}}
{{ .new }}.size() == {{ .old }}.size() &&
{{ .new }}.all(k, k in {{ .old }} && (k in {{ toJson .but }} || {{ .new }}[k] == {{ .old }}[k]))
{{- end -}}

{{/* Whether one of two names is a source's and the other that of a revision of it, or both are of revisions of the same source. */}}
{{- define "confrev.sameSource" -}}
{{- $revision := "^.*[^-.]-[bcdfghjklmnpqrstvwxz2456789]{10}$" -}}
({{ .new }}.matches('{{ $revision }}') &&
  ({{ .new }}.substring(0, {{ .new }}.size() - 11) == {{ .old }} ||
   {{ .old }}.size() > 242 && {{ .new }}.size() > 200 && {{ .old }}.startsWith({{ .new }}.substring(0, {{ .new }}.size() - 11)) ||
   {{ .old }}.matches('{{ $revision }}') &&
     {{ .new }}.substring(0, {{ .new }}.size() - 11) == {{ .old }}.substring(0, {{ .old }}.size() - 11))
 ||
 {{ .old }}.matches('{{ $revision }}') &&
  ({{ .old }}.substring(0, {{ .old }}.size() - 11) == {{ .new }} ||
   {{ .new }}.size() > 242 && {{ .old }}.size() > 200 && {{ .new }}.startsWith({{ .old }}.substring(0, {{ .old }}.size() - 11))))
{{- end -}}

{{/* Whether two objects that may refer to sources differ only in the names of those, and in fields that are compared elsewhere. */}}
{{- define "confrev.sameReferences" -}}
{{ include "confrev.sameBut" (dict "new" .new "old" .old "but" (concat .kinds (.others | default list))) }} &&
{{ toJson .kinds }}.all(r, !(r in {{ .new }}) || {{ .new }}[r] == {{ .old }}[r] ||
  {{ include "confrev.sameBut" (dict "new" (printf "%s[r]" .new) "old" (printf "%s[r]" .old) "but" (list "name" "secretName")) }} &&
  ['name', 'secretName'].all(f, !(f in {{ .new }}[r]) || {{ .new }}[r][f] == {{ .old }}[r][f] ||
    [{{ .new }}[r][f]].all(a, [{{ .old }}[r][f]].all(b,
      {{ include "confrev.sameSource" (dict "new" "a" "old" "b") }}))))
{{- end -}}

{{/*
Whether an expression holds for each pair of elements of two lists, {{`{{ .n }}`}} and {{`{{ .o }}`}}, that differ. Before Kubernetes
1.33, CEL has no index in its loops, so the index is composed of digits, and no list may be longer than 10,000.
*/}}
{{- define "confrev.pairs" -}}
[{{ .new }}].all(nl{{ .at }}, [{{ .old }}].all(ol{{ .at }}, nl{{ .at }} == ol{{ .at }} ||
  nl{{ .at }}.size() == ol{{ .at }}.size() && nl{{ .at }}.size() <= 10000 && [nl{{ .at }}.size()].all(size{{ .at }},
    [0,1,2,3,4,5,6,7,8,9].all(w{{ .at }}, w{{ .at }} * 1000 >= size{{ .at }} ||
    [0,1,2,3,4,5,6,7,8,9].all(x{{ .at }}, w{{ .at }} * 1000 + x{{ .at }} * 100 >= size{{ .at }} ||
    [0,1,2,3,4,5,6,7,8,9].all(y{{ .at }}, w{{ .at }} * 1000 + x{{ .at }} * 100 + y{{ .at }} * 10 >= size{{ .at }} ||
    [0,1,2,3,4,5,6,7,8,9].all(z{{ .at }}, w{{ .at }} * 1000 + x{{ .at }} * 100 + y{{ .at }} * 10 + z{{ .at }} >= size{{ .at }} ||
      [w{{ .at }} * 1000 + x{{ .at }} * 100 + y{{ .at }} * 10 + z{{ .at }}].all(i{{ .at }}, nl{{ .at }}[i{{ .at }}] == ol{{ .at }}[i{{ .at }}] ||
        [nl{{ .at }}[i{{ .at }}]].all({{ .n }}, [ol{{ .at }}[i{{ .at }}]].all({{ .o }},
          {{ .holds | nindent 10 }}))))))))))
{{- end -}}

{{/* Whether two lists of containers differ only in the names of sources. */}}
{{- define "confrev.sameContainers" -}}
{{- $env := printf "%s && (!('valueFrom' in ne) || ne.valueFrom == oe.valueFrom || %s)"
  (include "confrev.sameBut" (dict "new" "ne" "old" "oe" "but" (list "valueFrom")))
  (include "confrev.sameReferences" (dict "new" "ne.valueFrom" "old" "oe.valueFrom" "kinds" (list "configMapKeyRef" "secretKeyRef"))) -}}
{{- $from := include "confrev.sameReferences" (dict "new" "nf" "old" "of" "kinds" (list "configMapRef" "secretRef")) -}}
{{- $holds := printf "%s && (!('env' in nc) || %s) && (!('envFrom' in nc) || %s)"
  (include "confrev.sameBut" (dict "new" "nc" "old" "oc" "but" (list "env" "envFrom")))
  (include "confrev.pairs" (dict "new" "nc.env" "old" "oc.env" "n" "ne" "o" "oe" "at" "e" "holds" $env))
  (include "confrev.pairs" (dict "new" "nc.envFrom" "old" "oc.envFrom" "n" "nf" "o" "of" "at" "g" "holds" $from)) -}}
{{- include "confrev.pairs" (dict "new" .new "old" .old "n" "nc" "o" "oc" "at" "c" "holds" $holds) -}}
{{- end -}}

{{/* Whether two lists of volumes differ only in the names of sources. */}}
{{- define "confrev.sameVolumes" -}}
{{- $sources := include "confrev.sameReferences" (dict "new" "np" "old" "op" "kinds" (list "configMap" "secret")) -}}
{{- $projected := printf "%s && (!('sources' in nv.projected) || %s)"
  (include "confrev.sameBut" (dict "new" "nv.projected" "old" "ov.projected" "but" (list "sources")))
  (include "confrev.pairs" (dict "new" "nv.projected.sources" "old" "ov.projected.sources" "n" "np" "o" "op" "at" "p" "holds" $sources)) -}}
{{- $holds := printf "%s && (!('projected' in nv) || nv.projected == ov.projected || %s)"
  (include "confrev.sameReferences" (dict "new" "nv" "old" "ov" "kinds" (list "configMap" "secret") "others" (list "projected"))) $projected -}}
{{- include "confrev.pairs" (dict "new" .new "old" .old "n" "nv" "o" "ov" "at" "v" "holds" $holds) -}}
{{- end -}}
