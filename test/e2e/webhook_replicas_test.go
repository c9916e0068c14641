//go:build e2e

package e2e

import (
	"bytes"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/test/env"
)

// Rule 18: every replica answers. One that waits to lead does so while no one leads.
func TestAReplicaThatDoesNotLeadAnswersTheWebhook(t *testing.T) {
	stop(t)
	defer start(t)
	leader := newReplica(t, "leader")
	defer leader.stop(t)
	waiting := newReplica(t, "waiting")
	defer waiting.stop(t)
	w := newWorld(t)
	w.Must(cluster.WaitWebhook(w.Ctx))
	leader.stopped = true
	w.Must(leader.Kill())
	// The API server may have a connection to the other one still.
	w.Must(cluster.WaitWebhook(w.Ctx))
	w.Create(configMap("web", "color", "A"), deployment("web", envFrom("web")))
	if w.PinOf("web", "web") == (pin.Pin{}) {
		t.Error("the replica that waits did not pin")
	}
}

// Rule 18: the webhook fails open, and what it missed is repaired.
func nothingIsRefused(m *member) {
	w := newWorld(m.T)
	m.next()
	w.Create(configMap("web", "color", "A"), deployment("web", envFrom("web")))
	w.Kubectl("set", "image", "deployment/web", "app=app:2")
	w.Kubectl("scale", "deployment/web", "--replicas=2")
	if got := w.PinsText("web"); got != "" {
		m.Fatalf("pinned to %s by no one", got)
	}
	m.next()
	w.WaitPinned("web", "web", "color", "A")
}

// The certificate is renewed without a restart, when its authority is.
func TestTheCertificateOfTheWebhookIsRenewed(t *testing.T) {
	w := newWorld(t)
	before := w.authority()
	w.Must(cluster.Client.Patch(w.Ctx, &corev1.Secret{ObjectMeta: *authoritySecret()}, client.RawPatch(types.MergePatchType, []byte(`{"data":null}`))))
	w.Eventually("the API server trusts a new authority", func() string {
		after := w.authority()
		if len(after) == 0 || bytes.Equal(before, after) {
			return "no new authority"
		}
		if !bytes.Contains(w.pinWorkloads().Webhooks[0].ClientConfig.CABundle, after) {
			return "it is not in the configuration of the webhook"
		}
		return ""
	})
	w.Must(cluster.WaitWebhook(w.Ctx))
	if !bytes.Contains(w.pinWorkloads().Webhooks[0].ClientConfig.CABundle, before) {
		t.Error("the authority before is trusted no more, although another replica may still serve with it")
	}
}

func authoritySecret() *metav1.ObjectMeta {
	return &metav1.ObjectMeta{Namespace: env.Namespace, Name: "confrev-webhook-ca"}
}

// authority returns the certificate of the authority; none while there is none.
func (w *world) authority() []byte {
	w.Helper()
	secret := &corev1.Secret{}
	meta := authoritySecret()
	w.Must(cluster.Client.Get(w.Ctx, types.NamespacedName{Namespace: meta.Namespace, Name: meta.Name}, secret))
	return secret.Data["ca.crt"]
}

func (w *world) pinWorkloads() *admissionv1.MutatingWebhookConfiguration {
	w.Helper()
	config := &admissionv1.MutatingWebhookConfiguration{}
	w.Must(cluster.Client.Get(w.Ctx, types.NamespacedName{Name: "confrev-pin-workloads"}, config))
	return config
}
