// Package charts_test renders the chart with the real Helm: every value has an effect, and it is the documented one.
package charts_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	yamlutil "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/util/jsonpath"
	"sigs.k8s.io/yaml"
)

// tests set values, and expect fields of the rendered objects: "Kind/name {path}" is the text there. "Kind/name" alone is "yes" if there is
// such an object, and "no" if there isn't. APP is the chart's appVersion.
var tests = map[string]struct {
	values string
	want   map[string]string
}{
	"defaults": {"", map[string]string{
		deployment + "{.spec.replicas} {.spec.revisionHistoryLimit}":                            "2 10",
		pod + "{.serviceAccountName} {.hostNetwork}{.dnsPolicy}{.affinity}{.priorityClassName}": "confrev ",
		pod + "{.securityContext.runAsUser} {.terminationGracePeriodSeconds}":                   "65532 30",
		pod + "{.topologySpreadConstraints[*].topologyKey}":                                     "kubernetes.io/hostname",
		container + "{.image}":                                                             "ghcr.io/confrev/confrev:APP",
		container + "{.securityContext.capabilities.drop}":                                 `["ALL"]`,
		"PodDisruptionBudget/confrev":                                                      "no",
		"NetworkPolicy/confrev":                                                            "no",
		"ClusterRole/confrev-metrics-reader":                                               "no",
		"ClusterRole/confrev {.rules[0].resources}":                                        `["configmaps"]`,
		"ValidatingAdmissionPolicy/confrev-guard-revisions":                                "yes",
		"ValidatingAdmissionPolicy/confrev-confine-sources":                                "yes",
		"MutatingWebhookConfiguration/confrev-resolve-pins":                                "yes",
		"MutatingAdmissionPolicy/confrev-resolve-pins":                                     "no",
		"Service/confrev {.spec.ports[0].port}":                                            "443",
		"Secret/confrev-webhook-ca":                                                        "yes",
		"Certificate/confrev-webhook":                                                      "no",
		"ConfigMap/confrev":                                                                "no",
		"MutatingWebhookConfiguration/confrev-pin-workloads {.webhooks[0].timeoutSeconds}": "1",
		webhooks + "{.webhooks[*].name}":                                                   "pin-workloads.confrev.io pin-single-workloads.confrev.io",
		webhooks + "{.webhooks[*].namespaceSelector.matchExpressions[1].operator}":         "In NotIn",
		webhooks + "{.webhooks[0].matchConditions[*].name}":                                "not-confrev not-controlled-jobs",
		webhooks + "{.webhooks[1].matchConditions[*].name}":                                "not-confrev not-controlled-jobs keyed",
		webhooks + "{.webhooks[1].matchConditions[2].expression}":                          "~, o.?spec.?jobTemplate.?spec.?template.?metadata.?annotations]",
	}},

	"global.imageRegistry": {"global: {imageRegistry: registry.example.com/mirror}", map[string]string{
		container + "{.image}": "registry.example.com/mirror/confrev/confrev:APP",
	}},
	"global.imageRegistry, and a repository without a host": {"{global: {imageRegistry: registry.example.com}, image: {repository: team/confrev}}", map[string]string{
		container + "{.image}": "registry.example.com/team/confrev:APP",
	}},
	"global.imagePullSecrets": {"{global: {imagePullSecrets: [{name: all}]}, imagePullSecrets: [{name: own}]}", map[string]string{
		pod + "{.imagePullSecrets[*].name}": "own all",
	}},
	"fullnameOverride": {"fullnameOverride: config", map[string]string{
		"Deployment/config {.spec.template.spec.serviceAccountName}":                                       "config",
		"ClusterRoleBinding/config {.roleRef.name} {.subjects[0].name}":                                    "config config",
		"MutatingWebhookConfiguration/config-pin-workloads {.webhooks[0].clientConfig.service.name}":       "config",
		"ValidatingAdmissionPolicy/config-guard-revisions {.spec.matchConditions[?(@.name=='by-others')]}": "~system:serviceaccount:confrev-system:config",
	}},
	"commonLabels": {"commonLabels: {team: blue}", map[string]string{
		deployment + "{.metadata.labels.team} {.spec.template.metadata.labels.team}{.spec.selector.matchLabels.team}": "blue blue",
		"ClusterRole/confrev {.metadata.labels.team}":                                                                 "blue",
	}},
	"replicas":         {"replicas: 5", map[string]string{deployment + "{.spec.replicas}": "5"}},
	"image.repository": {"image: {repository: registry.example.com/confrev}", map[string]string{container + "{.image}": "registry.example.com/confrev:APP"}},
	"image.tag":        {"image: {tag: v9}", map[string]string{container + "{.image}": "ghcr.io/confrev/confrev:v9"}},
	"image.digest": {"image: {tag: v9, digest: 'sha256:" + digest + "'}", map[string]string{
		container + "{.image}": "ghcr.io/confrev/confrev@sha256:" + digest,
	}},
	"image.pullPolicy": {"image: {pullPolicy: Always}", map[string]string{container + "{.imagePullPolicy}": "Always"}},
	"imagePullSecrets": {"imagePullSecrets: [{name: own}]", map[string]string{pod + "{.imagePullSecrets[*].name}": "own"}},

	"watchNamespaces": {"watchNamespaces: [a, b]", with(args("--watch-namespaces=a,b"),
		container+"{.args[?(@=='--injection=template')]}", "--injection=template",
		"Role/confrev {.metadata.namespace} {.rules[0].resources}", `b ["configmaps"]`,
		"Role/confrev {.rules[*].resources[0]}", "configmaps deployments statefulsets daemonsets cronjobs replicasets controllerrevisions jobs events",
		"RoleBinding/confrev {.roleRef.kind} {.roleRef.name} {.subjects[0].name} {.subjects[0].namespace}", "Role confrev confrev confrev-system",
		"Role/confrev-leader-election {.rules[1].resourceNames}", `["confrev-namespaced"]`,
		"Service/confrev", "no", "Secret/confrev-webhook-ca", "no", container+"{.ports[?(@.name=='webhook')]}", "", container+"{.lifecycle}", "")},
	"watchNamespaces, and other values": {"{watchNamespaces: [a], fullnameOverride: config, secrets: {enabled: true}, workloads: [" + webApp + "], serviceAccount: {name: own}}", map[string]string{
		"Role/confrev {.rules[0].resources} {.rules[1].resources}": `["configmaps","secrets"] ["serviceaccounts"]`,
		"Role/confrev {.rules[*].resources[0]}":                    "~webapps",
		"RoleBinding/confrev {.subjects[0].name}":                  "own",
		"Role/config-leader-election {.rules[1].resourceNames}":    `["config-namespaced"]`,
	}},
	"watchNamespaces and restartOn": {"{watchNamespaces: [a], restartOn: [{apiGroups: [''], resources: [persistentvolumeclaims]}]}", map[string]string{
		"Role/confrev {.rules[?(@.resources[0]=='persistentvolumeclaims')].verbs}": `["get","list","watch"]`,
		"Role/confrev {.rules[1].resourceNames}":                                   `["confrev-key"]`,
	}},
	"watchNamespaces and networkPolicy": {"{watchNamespaces: [a], networkPolicy: {enabled: true, nodes: [10.1.0.0/16]}}", map[string]string{
		"NetworkPolicy/confrev {.spec.ingress[*].ports[0].port}": "8081",
	}},
	"watchNamespaces, without rbac": {"{watchNamespaces: [a], rbac: {create: false}}", map[string]string{"Role/confrev": "no", "Role/confrev-leader-election": "no"}},

	"settle":           {"settle: 3s", args("--settle=3s")},
	"grace":            {"grace: 1h", args("--grace=1h")},
	"workers":          {"workers: 3", args("--workers=3")},
	"revisionsPerHour": {"revisionsPerHour: 7", args("--revisions-per-hour=7")},
	"rolloutsPerHour":  {"rolloutsPerHour: 8", args("--rollouts-per-hour=8")},
	// Numbers in a file of values are floats.
	"a million": {"{workers: 1000000, revisionsPerHour: 1000000, rolloutsPerHour: 1000000}", args(
		`--workers=1000000","--revisions-per-hour=1000000","--rollouts-per-hour=1000000"`)},
	// The condition of a dependency in another chart hands this down.
	"enabled": {"enabled: true", map[string]string{"Deployment/confrev": "yes"}},
	"injection": {"injection: template", with(args("--injection=template"),
		"MutatingWebhookConfiguration/confrev-pin-workloads {.webhooks[0].matchConditions[0].expression}", "~orValue('template')")},
	"compat": {"compat: [reloader, wave]", with(args("--compat=reloader,wave"),
		webhooks+"{.webhooks[1].matchConditions[2].expression}", "~startsWith('confrev.io/') || k.matches('^[^/]*reloader[.]")},
	"rotate":     {"rotate: [vault]", args("--rotate=vault")},
	"log.format": {"log: {format: text}", args("--log-format=text")},
	"log.level":  {"log: {level: debug}", args("--log-level=debug")},
	"secrets.enabled": {"secrets: {enabled: true}", with(args("--secrets"),
		"ClusterRole/confrev {.rules[0].resources}", `["configmaps","secrets"]`)},
	"workloads": {"workloads: [" + webApp + "]", with(args("--config=/etc/confrev/workloads.yaml"),
		"ConfigMap/confrev {.data}", "~WebApp",
		"ClusterRole/confrev {.rules[?(@.apiGroups[0]=='apps.example.com')].verbs}", `["get","list","watch","patch"]`,
		"MutatingWebhookConfiguration/confrev-pin-workloads {.webhooks[0].rules[*].resources}", `~["webapps"]`,
		pod+"{.volumes[*].name} {.containers[0].volumeMounts[*].mountPath}", "config /etc/confrev",
		deployment+"{.spec.template.metadata.annotations}", "~checksum/workloads")},
	"restartOn": {"restartOn: [{apiGroups: [''], resources: [persistentvolumeclaims]}]", with(args("--restart-on=persistentvolumeclaims"),
		"ClusterRole/confrev {.rules[?(@.resources[0]=='persistentvolumeclaims')].verbs}", `["get","list","watch"]`)},

	"failFast.enabled": {"failFast: {enabled: true}", with(args("--fail-fast"),
		"ClusterRole/confrev {.rules[?(@.resources[0]=='pods')].verbs}", `["list"]`, "ValidatingAdmissionPolicy/confrev-confine-evictions", "no",
		"ClusterRole/confrev {.rules[?(@.resources[0]=='pods/eviction')].verbs}", "")},
	"failFast.evictStuckPods": {"failFast: {enabled: true, evictStuckPods: true}", with(args("--evict-stuck-pods"),
		"ClusterRole/confrev {.rules[?(@.resources[0]=='pods/eviction')].verbs}", `["create"]`, "ValidatingAdmissionPolicy/confrev-confine-evictions", "yes")},
	"failFast.evictStuckPods alone": {"failFast: {evictStuckPods: true}", map[string]string{
		"ClusterRole/confrev {.rules[?(@.resources[0]=='pods/eviction')].verbs}": "", "ValidatingAdmissionPolicy/confrev-confine-evictions": "no"}},

	"analysis.enabled": {"analysis: {enabled: true}", with(args("--analysis"),
		"ClusterRole/confrev {.rules[?(@.resources[0]=='analysisruns')].verbs}", `["get","list","create","delete"]`,
		"ClusterRole/confrev {.rules[?(@.resources[0]=='analysistemplates')].verbs}", `["get"]`, "ValidatingAdmissionPolicy/confrev-confine-analyses", "yes")},

	"safety": {"safety: careful", args("--default-safety=careful")},
	"stages": {"stages: [{namespace: prod, after: staging}, {namespace: eu, after: prod}]", args(`--stages=prod=staging","--stages=eu=prod`)},

	"podAdmission: policy": {"podAdmission: policy", map[string]string{
		"MutatingAdmissionPolicy/confrev-resolve-pins":      "yes",
		"MutatingWebhookConfiguration/confrev-resolve-pins": "no",
	}},
	"webhook.enabled": {"{webhook: {enabled: false}, podAdmission: policy}", map[string]string{
		"MutatingWebhookConfiguration/confrev-pin-workloads": "no",
		"Service/confrev":           "no",
		"Secret/confrev-webhook-ca": "no",
		container + "{.args}":       "!--webhook-",
	}},
	"webhook.timeoutSeconds": {"webhook: {timeoutSeconds: 9}", map[string]string{
		"MutatingWebhookConfiguration/confrev-pin-workloads {.webhooks[0].timeoutSeconds}": "9",
		"MutatingWebhookConfiguration/confrev-resolve-pins {.webhooks[0].timeoutSeconds}":  "9",
	}},
	"webhook.url": {"webhook: {url: 'https://localhost:9443'}", with(args("--webhook-dns-names=confrev.confrev-system.svc,localhost\""),
		"MutatingWebhookConfiguration/confrev-pin-workloads {.webhooks[0].clientConfig.url}", "https://localhost:9443",
		"Service/confrev", "no")},
	"webhook.url with an address": {"webhook: {url: 'https://[fd00::]:9443'}", args("--webhook-dns-names=confrev.confrev-system.svc,fd00::\"")},
	"webhook.url and certManager": {"webhook: {url: 'https://confrev.example.com', certManager: {enabled: true}}", map[string]string{
		"Certificate/confrev-webhook {.spec.dnsNames} {.spec.ipAddresses}": `["confrev.confrev-system.svc","confrev.example.com"] `,
	}},
	"webhook.url with an address, and certManager": {"webhook: {url: 'https://10.0.0.7:9443', certManager: {enabled: true}}", map[string]string{
		"Certificate/confrev-webhook {.spec.dnsNames} {.spec.ipAddresses}": `["confrev.confrev-system.svc"] ["10.0.0.7"]`,
	}},
	"webhook.clientCA": {"webhook: {clientCA: clients}", with(args("--webhook-client-ca-file=/etc/confrev-webhook-clients/ca.crt"),
		pod+"{.volumes[0].configMap.name}", "clients")},
	"webhook.certManager.enabled": {"webhook: {certManager: {enabled: true}}", with(args("--webhook-cert-dir=/etc/confrev-webhook"),
		"Certificate/confrev-webhook {.spec.issuerRef.name}", "confrev-webhook",
		"Certificate/confrev-webhook-root {.spec.isCA}", "true",
		"MutatingWebhookConfiguration/confrev-pin-workloads {.metadata.annotations}", "~confrev-system/confrev-webhook")},
	"webhook.certManager.issuerRef": {"webhook: {certManager: {enabled: true, issuerRef: {kind: ClusterIssuer, name: internal}}}", map[string]string{
		"Certificate/confrev-webhook {.spec.issuerRef.kind} {.spec.issuerRef.name}": "ClusterIssuer internal",
		"Certificate/confrev-webhook-root":                                          "no",
	}},

	"guards.enabled": {"guards: {enabled: false}", map[string]string{"ValidatingAdmissionPolicy/confrev-guard-revisions": "no"}},
	"guards.exemptUsers": {"guards: {exemptUsers: [alice]}", map[string]string{
		"ValidatingAdmissionPolicy/confrev-guard-revisions {.spec.matchConditions[?(@.name=='by-others')]}": "~alice",
	}},
	"selfConfinement.enabled": {"selfConfinement: {enabled: false}", map[string]string{"ValidatingAdmissionPolicy/confrev-confine-sources": "no"}},
	"selfConfinement.tolerate": {"selfConfinement: {tolerate: [spec.template.spec.tolerations]}", map[string]string{
		"ValidatingAdmissionPolicy/confrev-confine-spec.template {.spec}": "~tolerations",
	}},

	"resources":          {"resources: {requests: {cpu: 1, memory: 1Gi}, limits: {memory: 2Gi}}", map[string]string{container + "{.resources.limits.memory} {.resources.requests.cpu} {.resources.requests.memory} {.env[?(@.name=='MEMORY_LIMIT')].valueFrom.resourceFieldRef.resource}": "2Gi 1 1Gi limits.memory"}},
	"metrics.secure":     {"metrics: {secure: true}", with(args("--metrics-secure"), "ClusterRole/confrev-metrics-reader", "yes")},
	"metrics.certSecret": {"metrics: {secure: true, certSecret: own}", with(args("--metrics-cert-dir=/etc/confrev-metrics"), pod+"{.volumes[0].secret.secretName}", "own")},
	"metrics.serviceMonitor.enabled": {"metrics: {serviceMonitor: {enabled: true}}", map[string]string{
		"ServiceMonitor/confrev {.spec.endpoints[0].honorLabels} {.spec.endpoints[0].scheme}{.spec.endpoints[0].interval}": "true ",
		"Service/confrev-metrics {.spec.ports[0].port} {.spec.publishNotReadyAddresses}":                                   "8080 true",
		"PrometheusRule/confrev": "no",
	}},
	"metrics.serviceMonitor.labels and interval": {"metrics: {serviceMonitor: {enabled: true, interval: 15s, labels: {release: prometheus}}}", map[string]string{
		"ServiceMonitor/confrev {.metadata.labels.release} {.spec.endpoints[0].interval}": "prometheus 15s",
	}},
	"metrics.serviceMonitor with metrics.secure": {"metrics: {secure: true, serviceMonitor: {enabled: true}}", map[string]string{
		"ServiceMonitor/confrev {.spec.endpoints[0].scheme} {.spec.endpoints[0].tlsConfig.insecureSkipVerify}": "https true",
	}},
	"metrics.serviceMonitor.tlsConfig": {"metrics: {secure: true, serviceMonitor: {enabled: true, tlsConfig: {serverName: own}}}", map[string]string{
		"ServiceMonitor/confrev {.spec.endpoints[0].tlsConfig.serverName}{.spec.endpoints[0].tlsConfig.insecureSkipVerify}": "own",
	}},
	"metrics.dashboard.enabled": {"metrics: {dashboard: {enabled: true}}", map[string]string{
		"ConfigMap/confrev-dashboard {.metadata.labels.grafana_dashboard}": "1",
		"ConfigMap/confrev-dashboard {.data}":                              "~Workloads by state",
	}},
	"metrics.dashboard.labels and annotations": {"metrics: {dashboard: {enabled: true, labels: {grafana_dashboard: null, dashboards: all}, annotations: {grafana_folder: Kubernetes}}}", map[string]string{
		"ConfigMap/confrev-dashboard {.metadata.labels.grafana_dashboard}{.metadata.labels.dashboards} {.metadata.annotations.grafana_folder}": "all Kubernetes",
	}},
	"metrics.dashboard.labels, one more": {"metrics: {dashboard: {enabled: true, labels: {grafana_dashboard: 'yes'}}}", map[string]string{
		"ConfigMap/confrev-dashboard {.metadata.labels.grafana_dashboard}": "yes",
	}},
	"metrics.prometheusRule.enabled and labels": {"{fullnameOverride: config, metrics: {prometheusRule: {enabled: true, labels: {release: prometheus}}}}", map[string]string{
		"PrometheusRule/config {.metadata.labels.release} {.spec.groups[0].name}":  "prometheus config",
		"PrometheusRule/config {.spec.groups[0].rules[0].expr}":                    `absent(up{job="config-metrics"} == 1)`,
		"PrometheusRule/config {.spec.groups[0].rules[3].annotations.summary}":     "~(namespace {{ $labels.namespace }})",
		"PrometheusRule/config {.spec.groups[0].rules[0].annotations.runbook_url}": "~/docs/alerts.md#confrevdown",
		"ServiceMonitor/config": "no",
	}},
	"ports.webhook":  {"ports: {webhook: 1443}", with(args("--webhook-bind-address=:1443"), container+"{.ports[?(@.name=='webhook')].containerPort}", "1443")},
	"ports.metrics":  {"ports: {metrics: 1080}", with(args("--metrics-bind-address=:1080"), container+"{.ports[?(@.name=='metrics')].containerPort}", "1080")},
	"ports.health":   {"ports: {health: 1081}", with(args("--health-probe-bind-address=:1081"), container+"{.ports[?(@.name=='health')].containerPort}", "1081")},
	"livenessProbe":  {"livenessProbe: {periodSeconds: 7}", map[string]string{container + "{.livenessProbe.periodSeconds} {.livenessProbe.httpGet.path}": "7 /healthz"}},
	"readinessProbe": {"readinessProbe: {periodSeconds: 8}", map[string]string{container + "{.readinessProbe.periodSeconds} {.readinessProbe.httpGet.path}": "8 /readyz"}},

	"strategy":                      {"strategy: {rollingUpdate: {maxSurge: 3}}", map[string]string{deployment + "{.spec.strategy.rollingUpdate.maxSurge}": "3"}},
	"revisionHistoryLimit":          {"revisionHistoryLimit: 4", map[string]string{deployment + "{.spec.revisionHistoryLimit}": "4"}},
	"terminationGracePeriodSeconds": {"terminationGracePeriodSeconds: 44", map[string]string{pod + "{.terminationGracePeriodSeconds}": "44"}},
	"priorityClassName":             {"priorityClassName: high", map[string]string{pod + "{.priorityClassName}": "high"}},
	"nodeSelector":                  {"nodeSelector: {zone: a}", map[string]string{pod + "{.nodeSelector.zone}": "a"}},
	"tolerations":                   {"tolerations: [{key: spot}]", map[string]string{pod + "{.tolerations[0].key}": "spot"}},
	"affinity":                      {"affinity: {podAntiAffinity: {}}", map[string]string{pod + "{.affinity}": `{"podAntiAffinity":{}}`}},
	"topologySpreadConstraints":     {"topologySpreadConstraints: [{topologyKey: zone, maxSkew: 1, whenUnsatisfiable: DoNotSchedule}]", map[string]string{pod + "{.topologySpreadConstraints[*].topologyKey}": "zone"}},
	"runtimeClassName":              {"runtimeClassName: gvisor", map[string]string{pod + "{.runtimeClassName}": "gvisor"}},
	// A new pod would wait for the ports of an old one.
	"hostNetwork": {"hostNetwork: true", map[string]string{
		pod + "{.hostNetwork} {.dnsPolicy}":           "true ClusterFirstWithHostNet",
		deployment + "{.spec.strategy.rollingUpdate}": `{"maxSurge":0,"maxUnavailable":1}`,
	}},
	"hostNetwork and strategy":  {"{hostNetwork: true, strategy: {type: Recreate}}", map[string]string{deployment + "{.spec.strategy}": `{"type":"Recreate"}`}},
	"dnsPolicy":                 {"{hostNetwork: true, dnsPolicy: Default}", map[string]string{pod + "{.dnsPolicy}": "Default"}},
	"deploymentAnnotations":     {"deploymentAnnotations: {a: b}", map[string]string{deployment + "{.metadata.annotations.a}": "b"}},
	"podAnnotations":            {"podAnnotations: {a: b}", map[string]string{deployment + "{.spec.template.metadata.annotations.a}": "b"}},
	"podLabels":                 {"podLabels: {a: b}", map[string]string{deployment + "{.spec.template.metadata.labels.a}": "b"}},
	"podSecurityContext":        {"podSecurityContext: {runAsUser: null, runAsGroup: 7}", map[string]string{pod + "{.securityContext.runAsUser}{.securityContext.runAsGroup} {.securityContext.runAsNonRoot}": "7 true"}},
	"podSecurityContext, whole": {"podSecurityContext: {runAsNonRoot: false, runAsUser: 1, seccompProfile: {type: Unconfined}}", map[string]string{pod + "{.securityContext.runAsNonRoot} {.securityContext.runAsUser} {.securityContext.seccompProfile.type}": "false 1 Unconfined"}},
	"securityContext": {"securityContext: {allowPrivilegeEscalation: true, readOnlyRootFilesystem: false, capabilities: {drop: [NET_RAW]}}", map[string]string{
		container + "{.securityContext.allowPrivilegeEscalation} {.securityContext.readOnlyRootFilesystem} {.securityContext.capabilities.drop[*]}": "true false NET_RAW",
	}},
	"extraArgs":              {"extraArgs: [--context=other]", args("--context=other")},
	"extraEnv":               {"extraEnv: [{name: GOMEMLIMIT, value: 400MiB}]", map[string]string{container + "{.env[?(@.name=='GOMEMLIMIT')].value} {.env[0].name}": "400MiB POD_NAMESPACE"}},
	"extraVolumes":           {"extraVolumes: [{name: ca}]", map[string]string{pod + "{.volumes[*].name}": "ca"}},
	"extraVolumeMounts":      {"extraVolumeMounts: [{name: ca, mountPath: /ca}]", map[string]string{container + "{.volumeMounts[*].mountPath}": "/ca"}},
	"service.annotations":    {"service: {annotations: {a: b}}", map[string]string{"Service/confrev {.metadata.annotations.a}": "b"}},
	"service.ipFamilyPolicy": {"service: {ipFamilyPolicy: PreferDualStack}", map[string]string{"Service/confrev {.spec.ipFamilyPolicy}": "PreferDualStack"}},

	"networkPolicy.enabled, apiServers, metrics and nodes": {
		"networkPolicy: {enabled: true, apiServers: [10.0.0.0/28], metrics: [{namespaceSelector: {}}], nodes: [10.1.0.0/16]}", map[string]string{
			"NetworkPolicy/confrev {.spec.ingress[*].ports[0].port}":             "9443 8080 8081",
			"NetworkPolicy/confrev {.spec.ingress[*].from[*].ipBlock.cidr}":      "10.0.0.0/28 10.1.0.0/16",
			"NetworkPolicy/confrev {.spec.ingress[1].from[0].namespaceSelector}": "{}",
		},
	},
	"podDisruptionBudget.enabled": {"podDisruptionBudget: {enabled: true}", map[string]string{"PodDisruptionBudget/confrev {.spec.maxUnavailable}{.spec.minAvailable}": "1"}},
	"podDisruptionBudget.maxUnavailable": {"podDisruptionBudget: {enabled: true, maxUnavailable: 50%}", map[string]string{
		"PodDisruptionBudget/confrev {.spec.maxUnavailable}": "50%",
	}},
	"podDisruptionBudget.minAvailable": {"podDisruptionBudget: {enabled: true, minAvailable: 0}", map[string]string{
		"PodDisruptionBudget/confrev {.spec.minAvailable} {.spec.maxUnavailable}": "0 ",
	}},
	"serviceAccount.create": {"serviceAccount: {create: false, name: own}", with(account("own"), "ServiceAccount/own", "no", "ServiceAccount/confrev", "no")},
	"serviceAccount.name":   {"serviceAccount: {name: own}", with(account("own"), "ServiceAccount/own", "yes")},
	"serviceAccount.annotations": {"serviceAccount: {annotations: {a: b}}", map[string]string{
		"ServiceAccount/confrev {.metadata.annotations.a}": "b",
	}},
	"rbac.create": {"rbac: {create: false}", map[string]string{
		"ClusterRole/confrev": "no", "ClusterRoleBinding/confrev": "no", "Role/confrev-leader-election": "no", "ServiceAccount/confrev": "yes",
		"ClusterRole/confrev-release-sources": "no", "Job/confrev-release-sources": "no",
	}},
	"hooks.preflight": {"{podAdmission: policy, hooks: {preflight: false}}", map[string]string{
		"ValidatingAdmissionPolicy/confrev-preflight": "no", "MutatingAdmissionPolicy/confrev-preflight": "no",
	}},
	"hooks.preflight, by default": {"podAdmission: policy", map[string]string{
		"ValidatingAdmissionPolicy/confrev-preflight {.metadata.annotations.helm\\.sh/hook}": "pre-install,pre-upgrade",
		"MutatingAdmissionPolicy/confrev-preflight":                                          "yes",
	}},
	"hooks.releaseSources.enabled": {"hooks: {releaseSources: {enabled: false}}", map[string]string{
		"Job/confrev-release-sources": "no", "ClusterRole/confrev-release-sources": "no", "ServiceAccount/confrev-release-sources": "no",
	}},
	"hooks.releaseSources with watchNamespaces": {"watchNamespaces: [team-a]", map[string]string{
		"Role/confrev-release-sources {.metadata.namespace} {.rules[*].resources}": `team-a ["configmaps"]`,
		"RoleBinding/confrev-release-sources {.subjects[0].namespace}":             "confrev-system",
		"ClusterRole/confrev-release-sources":                                      "no",
		job + "{.template.spec.containers[0].args}":                                `["release-sources","--watch-namespaces=team-a"]`,
		"ValidatingAdmissionPolicy/confrev-preflight":                              "no",
	}},
	"hooks.releaseSources, where and how it runs": {
		"{hooks: {releaseSources: {timeoutSeconds: 7}}, secrets: {enabled: true}, nodeSelector: {zone: a}, imagePullSecrets: [{name: own}], image: {tag: v9}}",
		map[string]string{
			job + "{.activeDeadlineSeconds} {.template.spec.nodeSelector.zone} {.template.spec.imagePullSecrets[*].name}":            "7 a own",
			job + "{.template.spec.securityContext.runAsUser} {.template.spec.containers[0].securityContext.readOnlyRootFilesystem}": "65532 true",
			job + "{.template.spec.containers[0].image} {.template.spec.containers[0].args}":                                         `ghcr.io/confrev/confrev:v9 ["release-sources","--secrets"]`,
			"ClusterRole/confrev-release-sources {.rules[*].resources} {.rules[*].verbs}":                                            `["configmaps","secrets"] ["list","patch"]`,
			"Job/confrev-release-sources {.metadata.annotations.helm\\.sh/hook}":                                                     "post-delete",
		},
	},
}

const (
	webhooks   = "MutatingWebhookConfiguration/confrev-pin-workloads "
	deployment = "Deployment/confrev "
	pod        = "Deployment/confrev .spec.template.spec "
	job        = "Job/confrev-release-sources .spec "
	container  = "Deployment/confrev .spec.template.spec.containers[0] "
	digest     = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	webApp     = "{group: apps.example.com, version: v1, kind: WebApp, plural: webapps, template: spec.template, holder: {group: apps, version: v1, kind: ReplicaSet, plural: replicasets}}"
)

// args expects an argument of the controller.
func args(flag string) map[string]string { return map[string]string{container + "{.args}": "~" + flag} }

// account expects that confrev runs as an account, which has the rights, and which the policies know.
func account(name string) map[string]string {
	user := "~system:serviceaccount:confrev-system:" + name
	return map[string]string{
		pod + "{.serviceAccountName}":                                                             name,
		"ClusterRoleBinding/confrev {.subjects[0].name}":                                          name,
		"RoleBinding/confrev-webhook-ca {.subjects[0].name}":                                      name,
		"ValidatingAdmissionPolicy/confrev-guard-revisions {.spec.matchConditions}":               user,
		"ValidatingAdmissionPolicy/confrev-confine-sources {.spec.matchConditions}":               user,
		"MutatingWebhookConfiguration/confrev-pin-workloads {.webhooks[0].matchConditions}":       user,
		"RoleBinding/confrev-leader-election {.subjects[0].name} {.roleRef.name} {.roleRef.kind}": name + " confrev-leader-election Role",
	}
}

func with(want map[string]string, more ...string) map[string]string {
	for pair := range slices.Chunk(more, 2) {
		want[pair[0]] = pair[1]
	}
	return want
}

func TestEveryValueHasItsEffect(t *testing.T) {
	t.Parallel()
	chart, err := os.ReadFile(filepath.Join("confrev", "Chart.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	version := fmt.Sprint(parsed(t, string(chart))["appVersion"])
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			objects, err := render(t, tt.values)
			if err != nil {
				t.Fatal(err)
			}
			for what, want := range tt.want {
				if got := find(t, objects, what); !matches(got, strings.Replace(want, "APP", version, 1)) {
					t.Errorf("%s is %q, want %q", what, got, want)
				}
			}
		})
	}
}

// matches compares a text with the expected one: "~x" contains x, and "!x" doesn't.
func matches(got, want string) bool {
	if part, ok := strings.CutPrefix(want, "~"); ok {
		return strings.Contains(strings.ReplaceAll(got, `\"`, `"`), part)
	}
	if part, ok := strings.CutPrefix(want, "!"); ok {
		return got != "" && !strings.Contains(got, part)
	}
	return got == want
}

// Each value of values.yaml is set by one of the tests.
func TestEveryValueIsTested(t *testing.T) {
	t.Parallel()
	set := map[string]bool{}
	for _, tt := range tests {
		leaves(parsed(t, tt.values), "", set)
	}
	text, err := os.ReadFile(filepath.Join("confrev", "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]bool{}
	leaves(parsed(t, string(text)), "", all)
	count := 0
	for _, value := range slices.Sorted(maps.Keys(all)) {
		if set[value] || slices.ContainsFunc(slices.Collect(maps.Keys(set)), func(s string) bool { return strings.HasPrefix(s, value+".") }) {
			count++
		} else {
			t.Errorf("no test sets %s", value)
		}
	}
	t.Logf("%d of %d values", count, len(all))
}

// leaves collects the paths of values that are no maps, or empty ones.
func leaves(values map[string]any, prefix string, into map[string]bool) {
	for key, value := range values {
		if below, ok := value.(map[string]any); ok && len(below) > 0 {
			leaves(below, prefix+key+".", into)
		} else {
			into[prefix+key] = true
		}
	}
}

// Flux appends the digest of a chart to its version, and what a version may contain, a label may not.
func TestVersionsWithBuildMetadata(t *testing.T) {
	t.Parallel()
	chart := filepath.Join(t.TempDir(), "confrev")
	if err := os.CopyFS(chart, os.DirFS("confrev")); err != nil {
		t.Fatal(err)
	}
	for version, want := range map[string]string{
		"1.2.3+4fda46fd8c4e":                      "confrev-1.2.3_4fda46fd8c4e",
		"1.2.3+" + strings.Repeat("a.", 24) + "-": "confrev-1.2.3_" + strings.Repeat("a.", 24)[:47],
	} {
		meta := "{apiVersion: v2, name: confrev, version: " + version + ", appVersion: v1.2.3}"
		if err := os.WriteFile(filepath.Join(chart, "Chart.yaml"), []byte(meta), 0o600); err != nil {
			t.Fatal(err)
		}
		objects, err := template(t, chart, "confrev", "")
		if err != nil {
			t.Fatal(err)
		}
		for _, labels := range []string{"{.metadata.labels.helm\\.sh/chart}", "{.spec.template.metadata.labels.helm\\.sh/chart}"} {
			if got := find(t, objects, deployment+labels); got != want {
				t.Errorf("version %s: %s is %s, want %s", version, labels, got, want)
			}
		}
	}
}

// However long the release's name is, the API server accepts the names that are made from it.
func TestLongNames(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("confrev-", 7)
	for _, values := range []string{"webhook: {certManager: {enabled: true}}", "{fullnameOverride: " + long + "x, metrics: {serviceMonitor: {enabled: true}}}"} {
		objects, err := template(t, "confrev", long[:53], values)
		if err != nil {
			t.Fatal(err)
		}
		for id, object := range objects {
			// They are labels, or parts of names in DNS.
			short := slices.Contains([]string{"Deployment", "Job", "Service"}, object.GetKind())
			if short && len(object.GetName()) > 63 {
				t.Errorf("%s: its name has %d characters, and may have 63", id, len(object.GetName()))
			}
			if name, _, _ := unstructured.NestedString(object.Object, "spec", "commonName"); len(name) > 64 {
				t.Errorf("%s: its common name has %d characters, and may have 64", id, len(name))
			}
		}
	}
}

// inNamespaces are the kinds of objects that a namespaced installation consists of: none of them is in no namespace.
var inNamespaces = []string{
	"ServiceAccount", "Role", "RoleBinding", "Deployment", "ConfigMap", "Service", "ServiceMonitor", "PrometheusRule", "NetworkPolicy", "PodDisruptionBudget",
	"Job",
}

// With watchNamespaces, nothing is in no namespace, whatever else is enabled.
func TestNamespacedIsInNamespaces(t *testing.T) {
	t.Parallel()
	objects, err := render(t, `{watchNamespaces: [a, b], secrets: {enabled: true}, workloads: [`+webApp+`], networkPolicy: {enabled: true},
		metrics: {serviceMonitor: {enabled: true}, prometheusRule: {enabled: true}, dashboard: {enabled: true}}, podDisruptionBudget: {enabled: true}}`)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for id, object := range objects {
		seen[object.GetKind()] = true
		if !slices.Contains(inNamespaces, object.GetKind()) || object.GetNamespace() == "" {
			t.Errorf("%s is in no namespace", id)
		}
	}
	if len(seen) != len(inNamespaces) {
		t.Errorf("only %v of %q", seen, inNamespaces)
	}
}

// A mistake in the values is an error, before anything is installed.
func TestMistakesInValues(t *testing.T) {
	t.Parallel()
	for values, want := range map[string]string{
		"replica: 3":                                       "replica",
		"webhook: {enabled: false}":                        "requires webhook.enabled",
		"settle: fast":                                     "settle",
		"serviceAccount: {create: false}":                  "serviceAccount.name: the account that confrev runs as",
		"networkPolicy: {enabled: true}":                   "networkPolicy.apiServers",
		"restartOn: [{apiGroups: [''], resources: ['*']}]": "cannot be listed",
		"extraArgs: [secrets]":                             "extraArgs",
		"terminationGracePeriodSeconds: 5":                 "terminationGracePeriodSeconds",

		"watchNamespaces: [A]":                                                    "watchNamespaces",
		"watchNamespaces: [a, a]":                                                 "watchNamespaces",
		"watchNamespaces: [kube-system]":                                          "leaves kube-system alone",
		"{watchNamespaces: [a], injection: admission}":                            "injection must be template",
		"{watchNamespaces: [a], podAdmission: webhook}":                           "leave podAdmission at auto",
		"{watchNamespaces: [a], webhook: {url: 'https://localhost'}}":             "remove webhook.url",
		"{watchNamespaces: [a], webhook: {clientCA: clients}}":                    "remove webhook.url",
		"{watchNamespaces: [a], webhook: {certManager: {enabled: true}}}":         "remove webhook.url",
		"{watchNamespaces: [a], service: {ipFamilyPolicy: SingleStack}}":          "remove webhook.url",
		"{watchNamespaces: [a], networkPolicy: {apiServers: [10.0.0.0/28]}}":      "remove webhook.url",
		"{watchNamespaces: [a], guards: {exemptUsers: [alice]}}":                  "remove guards.exemptUsers",
		"{watchNamespaces: [a], selfConfinement: {tolerate: [spec.tolerations]}}": "remove guards.exemptUsers",
		"{watchNamespaces: [a], metrics: {secure: true}}":                         "remove metrics.secure",
		"{watchNamespaces: [a], stages: [{namespace: prod, after: staging}]}":     "remove stages",
	} {
		if _, err := render(t, values); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", values, err, want)
		}
	}
}

func parsed(t *testing.T, text string) map[string]any {
	t.Helper()
	values := map[string]any{}
	if err := yaml.Unmarshal([]byte(text), &values); err != nil {
		t.Fatal(err)
	}
	return values
}

var helm = sync.OnceValues(func() (string, error) {
	cmd := exec.Command("go", "run", "-C", filepath.Join("..", "hack", "cluster"), ".", "path", "helm")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	return strings.TrimSpace(string(out)), err
})

// render returns the chart's objects with these values, by kind and name, where there is no API server to ask.
func render(t *testing.T, values string) (map[string]*unstructured.Unstructured, error) {
	t.Helper()
	return renderFor(t, values)
}

// policies is the flag for API servers that resolve pins themselves.
const policies = "--api-versions=admissionregistration.k8s.io/v1/MutatingAdmissionPolicy"

// renderFor does so for an API server that helm's flags describe.
func renderFor(t *testing.T, values string, flags ...string) (map[string]*unstructured.Unstructured, error) {
	t.Helper()
	return template(t, "confrev", "confrev", values, flags...)
}

// template returns the objects of a release of a chart.
func template(t *testing.T, chart, release, values string, flags ...string) (map[string]*unstructured.Unstructured, error) {
	t.Helper()
	program, err := helm()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, "template", release, chart, "--namespace", "confrev-system", "--values", "-")
	cmd.Args = append(cmd.Args, flags...)
	cmd.Stdin = strings.NewReader(values)
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, complaints.String())
	}
	return decode(t, out), nil
}

// decode returns the objects of a manifest by kind and name.
func decode(t *testing.T, text []byte) map[string]*unstructured.Unstructured {
	t.Helper()
	objects := map[string]*unstructured.Unstructured{}
	for decoder := yamlutil.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096); ; {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(&object.Object); errors.Is(err, io.EOF) {
			return objects
		} else if err != nil {
			t.Fatal(err)
		}
		if object.Object != nil {
			objects[object.GetKind()+"/"+object.GetName()] = object
		}
	}
}

// find returns the text that a test names: whether there is an object, or its fields. A path before the template leads to the part that it
// is about.
func find(t *testing.T, objects map[string]*unstructured.Unstructured, what string) string {
	t.Helper()
	id, template, fields := strings.Cut(what, " ")
	object := objects[id]
	if !fields {
		return map[bool]string{true: "yes", false: "no"}[object != nil]
	}
	if object == nil {
		return "no " + id
	}
	if prefix, rest, ok := strings.Cut(template, " "); ok && strings.HasPrefix(template, ".") {
		template = strings.ReplaceAll(rest, "{.", "{"+prefix+".")
	}
	path := jsonpath.New(what).AllowMissingKeys(true)
	if err := path.Parse(template); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := path.Execute(&out, object.Object); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// In namespaces, the rights on events are those that their administrator can grant: the ClusterRole admin has none on events.k8s.io before
// Kubernetes 1.35.
func TestRightsOnEventsCanBeGranted(t *testing.T) {
	for version, want := range map[string]string{"v1.30.0": "", "v1.34.9": "", "v1.35.0": "events.k8s.io", "v1.36.1-gke.100": "events.k8s.io"} {
		objects, err := renderFor(t, "watchNamespaces: [a]", "--kube-version", version)
		if err != nil {
			t.Fatal(err)
		}
		var groups []any
		rules, _, _ := unstructured.NestedSlice(objects["Role/confrev"].Object, "rules")
		for _, rule := range rules {
			if r := rule.(map[string]any); slices.Equal(r["resources"].([]any), []any{"events"}) {
				groups = append(groups, r["apiGroups"].([]any)...)
			}
		}
		if !slices.Equal(groups, []any{want}) {
			t.Errorf("%s: events of %q, want %q", version, groups, want)
		}
	}
}
