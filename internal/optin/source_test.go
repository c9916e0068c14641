package optin_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/test/gen"
)

func TestDescribe(t *testing.T) {
	const workload, referring = "uid-of-web", "uid-of-rollout"
	both := optin.Compat{Reloader: true, Wave: true}
	yes, no := true, false
	owner := func(controller *bool) []metav1.OwnerReference {
		return []metav1.OwnerReference{{UID: "x"}, {UID: workload, Controller: controller}}
	}
	plain, owned := optin.Traits{Policy: optin.PolicyRevision}, optin.Traits{Policy: optin.PolicyRevision, Owned: true}
	others := []metav1.OwnerReference{{Kind: "Deployment", Name: "web", UID: "earlier"}, {UID: "x"}}
	tests := map[string]struct {
		source  string // configmap/app when it is not given
		compat  optin.Compat
		meta    metav1.ObjectMeta
		want    optin.Traits
		never   string // part of the reason why it is never copied
		problem bool
	}{
		"nothing said":                 {want: optin.Traits{Policy: optin.PolicyRevision}},
		"policy revision":              {meta: metav1.ObjectMeta{Annotations: annotated(keys.Policy, "revision")}, want: optin.Traits{Policy: optin.PolicyRevision}},
		"policy live":                  {meta: metav1.ObjectMeta{Annotations: annotated(keys.Policy, "live")}, want: optin.Traits{Policy: optin.PolicyLive}},
		"policy ignore":                {meta: metav1.ObjectMeta{Annotations: annotated(keys.Policy, "ignore")}, want: optin.Traits{Policy: optin.PolicyIgnore}},
		"an empty policy":              {meta: metav1.ObjectMeta{Annotations: annotated(keys.Policy, "")}, want: optin.Traits{Policy: optin.PolicyRevision}},
		"a policy that is none":        {meta: metav1.ObjectMeta{Annotations: annotated(keys.Policy, "Live")}, want: optin.Traits{Policy: optin.PolicyRevision}, problem: true},
		"a label is no policy":         {meta: metav1.ObjectMeta{Labels: annotated(keys.Policy, "ignore")}, want: optin.Traits{Policy: optin.PolicyRevision}, problem: true},
		"Reloader's ignore":            {compat: both, meta: metav1.ObjectMeta{Annotations: annotated(reloader+"ignore", "true")}, want: optin.Traits{Policy: optin.PolicyIgnore}},
		"Reloader's ignore: false":     {compat: both, meta: metav1.ObjectMeta{Annotations: annotated(reloader+"ignore", "false")}, want: optin.Traits{Policy: optin.PolicyRevision}},
		"Reloader's ignore, unheard":   {compat: optin.Compat{Wave: true}, meta: metav1.ObjectMeta{Annotations: annotated(reloader+"ignore", "true")}, want: optin.Traits{Policy: optin.PolicyRevision}},
		"Reloader's match":             {compat: both, meta: metav1.ObjectMeta{Annotations: annotated(reloader+"match", "true")}, want: optin.Traits{Policy: optin.PolicyRevision, Marked: true}},
		"Reloader's match, unheard":    {meta: metav1.ObjectMeta{Annotations: annotated(reloader+"match", "true")}, want: optin.Traits{Policy: optin.PolicyRevision}},
		"Reloader's match, not true":   {compat: both, meta: metav1.ObjectMeta{Annotations: annotated(reloader+"match", "yes")}, want: optin.Traits{Policy: optin.PolicyRevision}},
		"owned by the workload":        {meta: metav1.ObjectMeta{OwnerReferences: owner(nil)}, want: owned},
		"owned, controller: false":     {meta: metav1.ObjectMeta{OwnerReferences: owner(&no)}, want: owned},
		"owned by its controller":      {meta: metav1.ObjectMeta{OwnerReferences: owner(&yes)}, want: plain},
		"owned by one that refers":     {meta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{UID: referring}}}, want: owned},
		"owned, but to be attached":    {meta: metav1.ObjectMeta{OwnerReferences: owner(nil), Annotations: annotated(keys.Attach, "true")}, want: plain},
		"owned, but Pulumi's":          {meta: metav1.ObjectMeta{OwnerReferences: owner(nil), Annotations: annotated("configmap.kubernetes.io/revision-managed", "true")}, want: plain},
		"owned, but once attached":     {meta: metav1.ObjectMeta{OwnerReferences: owner(nil), Annotations: annotated(keys.Attached, "true")}, want: plain},
		"owned, but of the CSI driver": {meta: metav1.ObjectMeta{OwnerReferences: owner(nil), Labels: annotated("secrets-store.csi.k8s.io/managed", "true")}, want: plain},
		"owned by others":              {meta: metav1.ObjectMeta{OwnerReferences: others}, want: optin.Traits{Policy: optin.PolicyRevision}},
		"the key of hashes":            {source: "secret/confrev-key", want: optin.Traits{Policy: optin.PolicyRevision}, never: "the key of confrev's hashes"},
		"a ConfigMap of its name":      {source: "configmap/confrev-key", want: optin.Traits{Policy: optin.PolicyRevision}},
		"the cluster's CA":             {source: "configmap/kube-root-ca.crt", want: optin.Traits{Policy: optin.PolicyRevision}, never: "the cluster itself"},
		"OpenShift's CA":               {source: "configmap/openshift-service-ca.crt", want: optin.Traits{Policy: optin.PolicyRevision}, never: "the cluster itself"},
		"Istio's CA":                   {source: "configmap/istio-ca-root-cert", want: optin.Traits{Policy: optin.PolicyRevision}, never: "the cluster itself"},
		"a Secret of the CA's name":    {source: "secret/kube-root-ca.crt", want: optin.Traits{Policy: optin.PolicyRevision}},
		"a name that begins alike":     {source: "configmap/kube-root-ca.crt2", want: optin.Traits{Policy: optin.PolicyRevision}},
		"a leader election's lock":     {meta: metav1.ObjectMeta{Annotations: annotated("control-plane.alpha.kubernetes.io/leader", "{}")}, want: optin.Traits{Policy: optin.PolicyRevision}, never: "leader election"},
		"a service account's token":    {source: "secret/token", meta: metav1.ObjectMeta{Annotations: annotated("kubernetes.io/service-account.name", "default")}, want: optin.Traits{Policy: optin.PolicyRevision}, never: "service account"},
		"a ConfigMap that says so":     {meta: metav1.ObjectMeta{Annotations: annotated("kubernetes.io/service-account.name", "default")}, want: optin.Traits{Policy: optin.PolicyRevision}},
		"an injected CA (annotation)":  {meta: metav1.ObjectMeta{Annotations: annotated("service.beta.openshift.io/inject-cabundle", "true")}, want: optin.Traits{Policy: optin.PolicyRevision}, never: "CA bundle"},
		"an injected CA (label)":       {meta: metav1.ObjectMeta{Labels: annotated("config.openshift.io/inject-trusted-cabundle", "true")}, want: optin.Traits{Policy: optin.PolicyRevision}, never: "CA bundle"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if test.source == "" {
				test.source = "configmap/app"
			}
			got, problems := test.compat.Describe(gen.Source(test.source), &test.meta, workload, referring)
			if (got.Never != "") != (test.never != "") || !strings.Contains(got.Never, test.never) {
				t.Errorf("never copied because %q, want %q", got.Never, test.never)
			}
			got.Never = ""
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if (len(problems) > 0) != test.problem {
				t.Errorf("problems %+v", problems)
			}
			if test.problem && !strings.Contains(problems[0].Text, test.source) {
				t.Errorf("%q does not name %s", problems[0].Text, test.source)
			}
		})
	}
}

func TestAttachableAndProtected(t *testing.T) {
	const pulumi = "configmap.kubernetes.io/revision-managed"
	tests := map[string]struct {
		annotations           map[string]string
		attachable, protected bool
	}{
		"nothing said":           {},
		"attach":                 {annotations: annotated(keys.Attach, "true"), attachable: true},
		"Pulumi's":               {annotations: annotated(pulumi, "true"), attachable: true},
		"attach: false":          {annotations: annotated(keys.Attach, "false")},
		"attach: True":           {annotations: annotated(keys.Attach, "True")},
		"attach and protect":     {annotations: annotated(keys.Attach, "true", keys.Protect, "true"), attachable: true, protected: true},
		"Pulumi's and protect":   {annotations: annotated(pulumi, "true", keys.Protect, "true"), attachable: true, protected: true},
		"protect: false":         {annotations: annotated(keys.Attach, "true", keys.Protect, "false"), attachable: true},
		"protect without attach": {annotations: annotated(keys.Protect, "true")},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			meta := &metav1.ObjectMeta{Annotations: test.annotations}
			if got := optin.Attachable(meta); got != test.attachable {
				t.Errorf("Attachable = %v", got)
			}
			if got := optin.Protected(meta); got != test.protected {
				t.Errorf("Protected = %v", got)
			}
			labels := &metav1.ObjectMeta{Labels: test.annotations}
			if optin.Attachable(labels) || optin.Protected(labels) {
				t.Error("labels count")
			}
		})
	}
}

// A cache that keeps SourceKeys only loses nothing that this package reads.
func TestSourceKeysHaveAllThatIsRead(t *testing.T) {
	all := map[string]string{}
	for _, key := range optin.SourceKeys {
		all[key] = "true"
	}
	for _, key := range []string{
		keys.Policy, keys.Attach, keys.Attached, keys.Protect, "configmap.kubernetes.io/revision-managed", reloader + "match", reloader + "ignore",
		"control-plane.alpha.kubernetes.io/leader", "kubernetes.io/service-account.name", "service.beta.openshift.io/inject-cabundle",
		"config.openshift.io/inject-trusted-cabundle", "secrets-store.csi.k8s.io/managed",
		keys.Advance, keys.FreezeUntil, keys.Window, keys.Deploys,
	} {
		if all[key] == "" {
			t.Errorf("%s is not kept", key)
		}
	}
}
