{{/* The lease of the replicas' leader, as Lease of internal/operator has it. */}}
{{- define "confrev.lease" -}}
{{ ternary (printf "%s-namespaced" (include "confrev.fullname" .)) "confrev" (not (empty .Values.watchNamespaces)) }}
{{- end -}}

{{/*
Refuses what cannot be together with watchNamespaces. Defaults that cannot be are off, and NOTES.txt says so; what someone set is an error.
*/}}
{{- define "confrev.checkNamespaces" -}}
{{- if .Values.watchNamespaces -}}
{{- $whole := "watchNamespaces goes without rights in the whole cluster, " -}}
{{- $admission := print $whole "so there are no admission policies and no webhooks: " -}}
{{- with .Values -}}
{{- if has "kube-system" .watchNamespaces -}}
{{- fail "watchNamespaces: confrev leaves kube-system alone" -}}
{{- end -}}
{{- if ne .podAdmission "auto" -}}
{{- fail (print $admission "leave podAdmission at auto") -}}
{{- end -}}
{{- if eq .injection "admission" -}}
{{- fail (print $admission "injection must be template, which is the default then") -}}
{{- end -}}
{{- if or .webhook.url .webhook.clientCA .webhook.certManager.enabled .service.annotations .service.ipFamilyPolicy .networkPolicy.apiServers -}}
{{- fail (print $admission "remove webhook.url, webhook.clientCA, webhook.certManager, service and networkPolicy.apiServers") -}}
{{- end -}}
{{- if or .guards.exemptUsers .selfConfinement.tolerate -}}
{{- fail (print $admission "remove guards.exemptUsers and selfConfinement.tolerate") -}}
{{- end -}}
{{- if .stages -}}
{{- fail (print $whole "so confrev cannot see what other namespaces have vouched for: remove stages") -}}
{{- end -}}
{{- if .metrics.secure -}}
{{- fail (print $whole "so confrev cannot ask the API server who may read its metrics: remove metrics.secure") -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
